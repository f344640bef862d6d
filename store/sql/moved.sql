-- name: add
-- Rescheduled messages, where the due scan finds them.
INSERT IGNORE INTO moved (shard, due, id) VALUES ?;

-- name: remove
-- A rescheduled message has left its place.
DELETE FROM moved WHERE shard = ? AND due = ? AND id = ?;

-- name: due
-- The due scan of one shard over rescheduled messages, each only at its present time.
SELECT m.id, m.due FROM moved m /*! FORCE INDEX (PRIMARY) */ JOIN delay d /*! FORCE INDEX (PRIMARY) */ ON d.shard = m.shard + 16 AND d.id = m.id AND d.due = m.due
WHERE m.shard = ? AND (m.due > ? OR m.due = ? AND m.id > ?) AND m.due < ? ORDER BY m.due, m.id LIMIT ?;

-- name: shards
-- In which shards there are any: a look at the head of each.
SELECT s.shard FROM (
  SELECT 0 AS shard UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7
  UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11 UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15
) s WHERE EXISTS (SELECT 1 FROM moved t /*! FORCE INDEX (PRIMARY) */ WHERE t.shard = s.shard);

-- name: orphans
-- Pointers of a shard into the past, to messages that are not there or have been moved again.
SELECT m.due, m.id FROM moved m /*! FORCE INDEX (PRIMARY) */
LEFT JOIN delay d /*! FORCE INDEX (PRIMARY) */ ON d.shard = m.shard + 16 AND d.id = m.id AND d.due = m.due
WHERE m.shard = ? AND m.due < ? AND d.id IS NULL ORDER BY m.due LIMIT ?;

-- name: upcoming
-- How many rescheduled messages of a topic (0: of all) fall due in a stretch of time.
SELECT /*! STRAIGHT_JOIN */ COUNT(*) FROM moved m /*! FORCE INDEX (PRIMARY) */
JOIN delay d /*! FORCE INDEX (PRIMARY) */ ON d.shard = m.shard + 16 AND d.id = m.id AND d.due = m.due
WHERE m.shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND m.due >= ? AND m.due < ?
  AND ? IN (0, d.topic_id);

-- name: edge
-- The first rescheduled message of a shard, from a time on, that lies behind so many others.
SELECT id, due FROM moved /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND due >= ? AND due < ? ORDER BY due, id
LIMIT 1 OFFSET ?;
