-- name: count
-- Adds to the counters of a topic.
UPDATE tally SET scheduled = scheduled + ?, cancelled = cancelled + ? WHERE topic_id = ? AND maker = ?;

-- name: add
-- A row that is not there yet, for the first count of a maker.
INSERT IGNORE INTO tally (topic_id, maker, scheduled, cancelled) VALUES ?;

-- name: of_topics
-- The counters of topics, all makers together.
SELECT topic_id, SUM(scheduled), SUM(cancelled) FROM tally WHERE topic_id IN (?*) GROUP BY topic_id;
