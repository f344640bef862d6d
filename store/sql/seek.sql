-- name: add
-- Seeks, into the log.
INSERT INTO seek (group_id, queue_id, number, sought_at, position_before, position_after, released) VALUES ?;

-- name: of_group
-- What the seeks of a group add up to, by queue, for audits.
SELECT queue_id, SUM(position_after - position_before + released) FROM seek WHERE group_id = ? GROUP BY queue_id;
