-- name: add
-- Seeks, into the log.
INSERT INTO seek (group_id, queue_id, number, sought_at, position_before, position_after, released) VALUES ?;
