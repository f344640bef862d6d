-- name: add
-- Seeks, into the log.
INSERT INTO seek (group_id, queue_id, number, sought_at, position_before, position_after, released) VALUES ?;

-- name: oldest
-- The head of the seeks of a cursor, from a number on.
SELECT number AS place, sought_at AS at FROM seek /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND queue_id = ? AND number >= ? ORDER BY number LIMIT ?;

-- name: expunge
-- A stretch of the log that is past its time.
DELETE /*+ INDEX(seek PRIMARY) */ FROM seek WHERE group_id = ? AND queue_id = ? AND number >= ? AND number < ?;

-- name: of_group
-- What the seeks of a group add up to, by queue, for audits.
SELECT queue_id, SUM(position_after - position_before + released) FROM seek WHERE group_id = ? GROUP BY queue_id;

-- name: all
-- What operators moved, ever.
SELECT t.name AS topic, g.name AS `group`, s.group_id, s.queue_id, s.number, s.sought_at, s.position_before,
  s.position_after, s.released
FROM seek s JOIN consumer_group g ON g.id = s.group_id JOIN topic t ON t.id = g.topic_id;
