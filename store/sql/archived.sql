-- name: find
-- The marks of a queue, and the one that says that there is an archive.
SELECT group_id, queue_id, upto FROM archived /*! FORCE INDEX (PRIMARY) */ WHERE queue_id IN (0, ?);
