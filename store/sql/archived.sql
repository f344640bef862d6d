-- name: find
-- The marks of a queue, and the one that says that there is an archive.
SELECT group_id, queue_id, upto FROM archived /*! FORCE INDEX (PRIMARY) */ WHERE queue_id IN (0, ?);

-- name: remove
-- The marks of a queue that is no more.
DELETE FROM archived WHERE queue_id = ?;

-- name: forget
-- The mark of a cursor that is no more.
DELETE FROM archived WHERE queue_id = ? AND group_id = ?;
