-- name: find
-- The marks of a queue, and the one that says that there is an archive.
SELECT group_id, queue_id, upto FROM archived /*! FORCE INDEX (PRIMARY) */ WHERE queue_id IN (0, ?);

-- name: remove
-- The marks of a queue that is no more.
DELETE FROM archived WHERE queue_id = ?;

-- name: forget
-- The mark of a cursor that is no more.
DELETE FROM archived WHERE queue_id = ? AND group_id = ?;

-- name: record
-- How far the archive has come; a mark never goes back.
INSERT INTO archived (group_id, queue_id, upto) VALUES ? ON DUPLICATE KEY UPDATE upto = GREATEST(upto, VALUES(upto));

-- name: begin_anew
-- The archive goes on elsewhere, where there is nothing yet.
UPDATE archived SET upto = 0 WHERE group_id = 0 AND queue_id = 0;

-- name: clear
-- What the archive before had of queues and logs.
DELETE FROM archived WHERE NOT (group_id = 0 AND queue_id = 0);
