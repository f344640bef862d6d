-- name: count
-- Adds to the counters of a topic.
UPDATE tally SET scheduled = scheduled + ?, cancelled = cancelled + ?, replaced = replaced + ?, suppressed = suppressed + ?
WHERE topic_id = ? AND tally_shard = ?;

-- name: add
-- A row that is not there yet, for the first count in a shard.
INSERT IGNORE INTO tally (topic_id, tally_shard, scheduled, cancelled) VALUES ?;

-- name: free
-- A shard's counters of these topics that nobody else is working on, for update.
SELECT topic_id, scheduled FROM tally /*! FORCE INDEX (PRIMARY) */ WHERE topic_id IN (?*) AND tally_shard = ?
/*! FOR UPDATE SKIP LOCKED */;

-- name: there
-- Of which of these topics a shard has counters.
SELECT topic_id, scheduled FROM tally /*! FORCE INDEX (PRIMARY) */ WHERE topic_id IN (?*) AND tally_shard = ?;

-- name: of_topics
-- The counters of topics, all makers together.
SELECT topic_id, SUM(scheduled), SUM(cancelled), SUM(replaced), SUM(suppressed) FROM tally WHERE topic_id IN (?*) GROUP BY topic_id;

-- name: lock
-- The counters of a topic, for update: nobody schedules meanwhile.
SELECT scheduled, cancelled FROM tally WHERE topic_id = ? ORDER BY tally_shard /*! FOR UPDATE */;

-- name: remove
-- The counters of a topic that is no more.
DELETE FROM tally WHERE topic_id = ?;

-- name: all
-- The counters of all topics, all makers together.
SELECT topic_id, SUM(scheduled) AS scheduled, SUM(cancelled) AS cancelled, SUM(replaced) AS replaced,
  SUM(suppressed) AS suppressed
FROM tally GROUP BY topic_id;

-- name: most_pending
-- The topics of which most waits for its time, and how much: what was scheduled, without what is gone or came into the
-- stream. A scan of the counters and of the queues.
SELECT topic_id, waits FROM (
  SELECT topic_id, SUM(waits) AS waits FROM (
    SELECT topic_id, scheduled - cancelled - replaced - suppressed AS waits FROM tally
    UNION ALL
    SELECT topic_id, straight - next_offset + holes AS waits FROM queue WHERE group_id = 0
  ) AS counts GROUP BY topic_id
) AS sums WHERE waits > 0 ORDER BY waits DESC, topic_id LIMIT ?;
