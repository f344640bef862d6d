-- name: add
-- Messages that go straight to the stream.
INSERT INTO message (queue_id, `offset`, id, nonce, {content}, streamed_at) VALUES ?;

-- name: add_bare
-- Those of which there is but the body: five times NULL cost SQLite more than all else of a row.
INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at) VALUES ?;

-- name: promote
-- Due messages, locked before, into the stream at consecutive offsets, in order of their time. The bodies never leave
-- the server.
INSERT INTO message (queue_id, `offset`, id, nonce, {content}, streamed_at)
SELECT queue_id, ? + ROW_NUMBER() OVER (ORDER BY deliver_at, accepted_at, id) - 1, id, nonce, {content}, ?
FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*);

-- name: range
-- A stretch of a queue, in order.
SELECT `offset`, id, {content}, streamed_at
FROM message /*! FORCE INDEX (PRIMARY) */ WHERE queue_id = ? AND `offset` >= ? AND `offset` < ? AND id >= 0
ORDER BY `offset` LIMIT ?;

-- name: tags
-- The tags of a stretch of a queue, in order, and past which time nobody is given them.
SELECT `offset`, tag, expires_at FROM message /*! FORCE INDEX (PRIMARY) */ WHERE queue_id = ? AND `offset` >= ? AND `offset` < ?
ORDER BY `offset` LIMIT ?;

-- name: expiries
-- Past which times the messages of a stretch of a queue are given to nobody, in order.
SELECT `offset`, expires_at FROM message /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` >= ? AND `offset` < ? AND id >= 0 ORDER BY `offset` LIMIT ?;

-- name: leaving
-- The ids of a stretch of a queue, and past which times nobody is given them: of what leaves its claim.
SELECT `offset`, id, expires_at FROM message /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` >= ? AND `offset` < ? AND id >= 0;

-- name: ids_within
-- The ids of stretches of queues, tombstones too.
SELECT queue_id, `offset`, id FROM message /*! FORCE INDEX (PRIMARY) */ WHERE (queue_id, `offset`) WITHIN (?*);

-- name: last
-- The last offset of a queue; -1 when it has none.
SELECT COALESCE(MAX(`offset`), -1) FROM message /*! FORCE INDEX (PRIMARY) */ WHERE queue_id = ?;

-- name: behind
-- What lies from an offset on, tombstones too; a bounded stretch.
SELECT `offset`, id, streamed_at FROM message /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` >= ? ORDER BY `offset` LIMIT ?;

-- name: count
-- How many of these are in the stream.
SELECT COUNT(*) FROM message /*! FORCE INDEX (udx_message_id) */ WHERE id IN (?*);

-- name: there
-- Those of these that are in the stream.
SELECT id FROM message /*! FORCE INDEX (udx_message_id) */ WHERE id IN (?*);

-- name: find
-- Where the messages lie in the stream, by id.
SELECT m.id, q.topic_id, m.queue_id, q.number, m.`offset`, {m.content}, m.streamed_at
FROM message m JOIN queue q ON q.id = m.queue_id WHERE m.id IN (?*);

-- name: weights
-- How many bytes messages are, waiting or in the stream, and why their attempts failed: a row for each part.
SELECT id, LENGTH(body) + COALESCE(LENGTH(headers), 0) FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*)
UNION ALL SELECT id, LENGTH(body) + COALESCE(LENGTH(headers), 0)
FROM message /*! FORCE INDEX (udx_message_id) */ WHERE id IN (?*)
UNION ALL SELECT message_id, LENGTH(history)
FROM redelivery /*! FORCE INDEX (idx_redelivery_message_id) */ WHERE message_id IN (?*);

-- name: oldest
-- The head of a queue, from an offset on, without the bodies.
SELECT `offset` AS place, streamed_at AS at, id, `key`, accepted_at, expires_at FROM message /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` >= ? ORDER BY `offset` LIMIT ?;

-- name: wanted
-- Who may still want a stretch of a queue: cursors (0), open claims (1), retries (2) and returns from the ladder
-- (3; of these when they came in place of the group), and what is parked (4).
-- One statement, so that all of it is seen at the same moment.
SELECT 0 AS kind, group_id, queue_id, position, 0 AS size FROM `cursor` /*! FORCE INDEX (PRIMARY) */ WHERE group_id IN (?*)
UNION ALL SELECT 1, group_id, queue_id, `first`, size FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE group_id IN (?*)
UNION ALL SELECT 2, group_id, id, message_offset, 0 FROM retry /*! FORCE INDEX (idx_retry_multi_source) */
WHERE message_queue_id = ? AND message_offset >= ? AND message_offset < ?
UNION ALL SELECT 3, streamed_at, queue_id, `offset`, message_offset
FROM redelivery /*! FORCE INDEX (idx_redelivery_message_id) */ WHERE message_id IN (?*)
UNION ALL SELECT 4, group_id, queue_id, message_offset, 0
FROM parked /*! FORCE INDEX (idx_parked_multi_source) */ WHERE queue_id = ? AND message_offset >= ? AND message_offset < ?;

-- name: remove
-- A stretch of a queue that is past its time.
DELETE /*+ INDEX(message PRIMARY) */ FROM message WHERE queue_id = ? AND `offset` >= ? AND `offset` < ?;
-- name: place
-- Where a message lies. (With the nonce, so that no index alone has it all.)
SELECT queue_id, `offset`, nonce FROM message WHERE id = ?;

-- name: places
-- Where messages lie, with the nonces they were written with.
SELECT queue_id, `offset`, nonce FROM message WHERE id IN (?*);

-- name: first
-- The first message at or after an offset, and when it came into the stream.
SELECT `offset`, streamed_at FROM message /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` >= ? ORDER BY `offset` LIMIT 1;

-- name: since
-- The first message of a stretch that came into the stream at a time or later.
SELECT `offset` FROM message /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` >= ? AND `offset` < ? AND streamed_at >= ? ORDER BY `offset` LIMIT 1;

-- name: page
-- The ids of a stretch of a queue, in order, and when they came.
SELECT `offset`, id, streamed_at FROM message /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` >= ? AND `offset` < ? ORDER BY `offset` LIMIT ?;

-- name: newest
-- The last of a queue below an offset, the newest first, tombstones too; and when they came.
SELECT `offset`, id, streamed_at FROM message /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` < ? ORDER BY `offset` DESC LIMIT ?;

-- name: restore
-- Messages of dead letters that retention has taken from the stream, back into their places.
INSERT IGNORE INTO message (queue_id, `offset`, id, nonce, {content}, streamed_at)
SELECT queue_id, `offset`, id, 0, {content},
  CASE WHEN deliver_at > accepted_at THEN deliver_at ELSE accepted_at END
FROM dead /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND id IN (?*);

-- name: members
-- The ordering keys of a stretch of a queue; ids below 0 where there is no message.
SELECT `offset`, `offset` AS message_offset, id, ordering_key FROM message /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` >= ? AND `offset` < ?;

-- name: briefly
-- Where messages lie in the stream, and when they came there, without their bodies.
SELECT id, queue_id, `offset`, streamed_at, `key`, headers, accepted_at, deliver_at FROM message WHERE id IN (?*);

-- name: standing
-- Where messages lie in the stream, and when they were due.
SELECT id, queue_id, `offset`, deliver_at FROM message /*! FORCE INDEX (udx_message_id) */ WHERE id IN (?*);

-- name: kept
-- Where messages lie, and what of their content type says that they were erased.
SELECT q.topic_id, m.queue_id, q.number, m.content_type
FROM message m /*! FORCE INDEX (udx_message_id) */ JOIN queue q ON q.id = m.queue_id WHERE m.id IN (?*);

-- name: erase
-- The content of a message goes.
UPDATE message SET headers = NULL, content_type = ?, body = X'' WHERE queue_id = ? AND `offset` = ?;
