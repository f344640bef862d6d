-- name: find
-- The counts of these topics and hours.
SELECT topic_id, hour, counts FROM forecast /*! FORCE INDEX (PRIMARY) */ WHERE (topic_id, hour) IN (?*);

-- name: put
-- Counts in place of what they were.
REPLACE INTO forecast (topic_id, hour, counts) VALUES ?;

-- name: remove
-- Hours in which nothing falls due any more.
DELETE FROM forecast WHERE (topic_id, hour) IN (?*);

-- name: forget
-- Hours that are over.
DELETE FROM forecast WHERE hour < ?;

-- name: read
-- What a topic has in a stretch of hours, 0 in the first column; and what is not added up yet, 1. One statement, so that
-- nothing is met twice or not at all.
SELECT * FROM (SELECT 0 AS kind, hour AS place, counts FROM forecast /*! FORCE INDEX (PRIMARY) */
  WHERE topic_id = ? AND hour >= ? AND hour < ?) some_hours
UNION ALL SELECT * FROM (SELECT 1, id, changes FROM forecast_change WHERE topic_id = ?) some_changes;

-- name: read_all
-- The same of all topics together, whose changes count all.
SELECT * FROM (SELECT 0 AS kind, hour AS place, counts FROM forecast /*! FORCE INDEX (PRIMARY) */
  WHERE topic_id = 0 AND hour >= ? AND hour < ?) some_hours
UNION ALL SELECT * FROM (SELECT 1, id, changes FROM forecast_change) some_changes;

-- name: compare
-- In a stretch of time, by topic and the minute's first millisecond: what waits in its own place (0), what was moved (1);
-- and what is kept of it: by hour (2), and not added up yet (3). One statement: all of it is of one moment.
SELECT 0 AS kind, topic_id, (id >> 21) - (id >> 21) % 60000 AS place, COUNT(*) AS many, '' AS counts
FROM delay /*! FORCE INDEX (PRIMARY) */
WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND id >= ? AND id < ?
GROUP BY topic_id, place
UNION ALL SELECT /*! STRAIGHT_JOIN */ 1, d.topic_id, m.due - m.due % 60000 AS place, COUNT(*), ''
FROM moved m /*! FORCE INDEX (PRIMARY) */
JOIN delay d /*! FORCE INDEX (PRIMARY) */ ON d.shard = m.shard + 16 AND d.id = m.id AND d.due = m.due
WHERE m.shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND m.due >= ? AND m.due < ?
GROUP BY d.topic_id, place
UNION ALL SELECT 2, topic_id, hour, 0, counts FROM forecast /*! FORCE INDEX (idx_forecast_hour) */
WHERE hour >= ? AND hour < ? AND topic_id > 0
UNION ALL SELECT 3, topic_id, id, 0, changes FROM forecast_change;
