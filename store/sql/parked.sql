-- name: add
-- Messages behind one of their key. (One that a seek made the group claim again may be here already.)
INSERT IGNORE INTO parked (group_id, queue_id, ordering_key, message_offset, message_id, attempt, history, parked_at)
VALUES ?;

-- name: first
-- The parked messages of a key before an offset, in order, for update.
SELECT message_offset, message_id, attempt, history FROM parked /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND queue_id = ? AND ordering_key = ? AND message_offset < ?
ORDER BY message_offset LIMIT ? /*! FOR UPDATE */;

-- name: remove
-- The parked messages of a key up to an offset.
DELETE FROM parked WHERE group_id = ? AND queue_id = ? AND ordering_key = ? AND message_offset <= ?;

-- name: count
-- How many messages of a group are parked.
SELECT COUNT(*) FROM parked WHERE group_id = ?;

-- name: counts
-- How many messages of each of these groups are parked. (With the topic, so that no index alone has it all.)
SELECT g.id, (SELECT COUNT(*) FROM parked p /*! FORCE INDEX (PRIMARY) */ WHERE p.group_id = g.id)
FROM consumer_group g /*! FORCE INDEX (PRIMARY) */ WHERE g.id IN (?*) AND g.topic_id > 0;

-- name: of_messages
-- The groups in which messages are parked.
SELECT message_id, group_id, attempt, history, parked_at
FROM parked /*! FORCE INDEX (idx_parked_message_id) */ WHERE message_id IN (?*);

-- name: along
-- What is parked of a topic's own queue, from an offset on.
SELECT message_offset, message_id, parked_at FROM parked /*! FORCE INDEX (idx_parked_multi_source) */
WHERE queue_id = ? AND message_offset >= ? ORDER BY message_offset LIMIT ?;

-- name: some
-- What is parked of a queue in a group, in key order, a bounded batch.
SELECT ordering_key, message_offset FROM parked /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND queue_id = ? ORDER BY ordering_key, message_offset LIMIT ?;

-- name: kept
-- Where a message is parked, and what is remembered of its attempts.
SELECT group_id, queue_id, ordering_key, message_offset, history
FROM parked /*! FORCE INDEX (idx_parked_message_id) */ WHERE message_id IN (?*);

-- name: rewrite
-- What is remembered of a message's attempts.
UPDATE parked SET history = ? WHERE group_id = ? AND queue_id = ? AND ordering_key = ? AND message_offset = ?;
