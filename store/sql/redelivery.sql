-- name: add
-- Due retries into their group's retry queue.
INSERT INTO redelivery (queue_id, `offset`, retry_id, message_queue_id, message_offset, message_id, attempt, history,
  streamed_at, losses) VALUES ?;

-- name: range
-- A stretch of a retry queue with its messages, in order.
SELECT r.`offset`, r.message_id AS id, {m.content}, r.streamed_at, r.attempt, r.message_offset AS source, r.losses
FROM redelivery r /*! FORCE INDEX (PRIMARY) */ JOIN message m /*! FORCE INDEX (PRIMARY) */ ON m.queue_id = r.message_queue_id AND m.`offset` = r.message_offset
WHERE r.queue_id = ? AND r.`offset` >= ? AND r.`offset` < ? ORDER BY r.`offset` LIMIT ?;

-- name: tags
-- The tags of the messages in a stretch of a retry queue, in order, and past which time nobody is given them.
SELECT r.`offset`, m.tag, m.expires_at
FROM redelivery r /*! FORCE INDEX (PRIMARY) */ JOIN message m /*! FORCE INDEX (PRIMARY) */ ON m.queue_id = r.message_queue_id AND m.`offset` = r.message_offset
WHERE r.queue_id = ? AND r.`offset` >= ? AND r.`offset` < ? ORDER BY r.`offset` LIMIT ?;

-- name: expiries
-- Past which times the messages of a stretch of a retry queue are given to nobody, in order.
SELECT r.`offset`, m.expires_at
FROM redelivery r /*! FORCE INDEX (PRIMARY) */ JOIN message m /*! FORCE INDEX (PRIMARY) */ ON m.queue_id = r.message_queue_id AND m.`offset` = r.message_offset
WHERE r.queue_id = ? AND r.`offset` >= ? AND r.`offset` < ? ORDER BY r.`offset` LIMIT ?;

-- name: ids_within
-- The ids of the messages in stretches of retry queues.
SELECT queue_id, `offset`, message_id FROM redelivery /*! FORCE INDEX (PRIMARY) */ WHERE (queue_id, `offset`) WITHIN (?*);

-- name: sources
-- Where the messages at these offsets of a retry queue lie, and what they have behind them; without those that are gone.
SELECT r.`offset`, r.message_queue_id, r.message_offset, r.message_id, r.attempt, r.history, m.expires_at,
  r.losses
FROM redelivery r /*! FORCE INDEX (PRIMARY) */ JOIN message m /*! FORCE INDEX (PRIMARY) */ ON m.queue_id = r.message_queue_id AND m.`offset` = r.message_offset
WHERE r.queue_id = ? AND r.`offset` IN (?*);

-- name: of_messages
-- The returns of messages.
SELECT message_id, queue_id, `offset`, attempt, history, streamed_at
FROM redelivery /*! FORCE INDEX (idx_redelivery_message_id) */ WHERE message_id IN (?*);

-- name: oldest
-- The head of a retry queue, from an offset on.
SELECT `offset` AS place, streamed_at AS at FROM redelivery /*! FORCE INDEX (PRIMARY) */
WHERE queue_id = ? AND `offset` >= ? ORDER BY `offset` LIMIT ?;

-- name: expunge
-- A stretch of a retry queue that is past its time.
DELETE /*+ INDEX(redelivery PRIMARY) */ FROM redelivery WHERE queue_id = ? AND `offset` >= ? AND `offset` < ?;

-- name: members
-- The ordering keys of a stretch of a retry queue; ids below 0 where the message is gone.
SELECT r.`offset`, r.message_offset, COALESCE(m.id, -1) AS id, m.ordering_key FROM redelivery r /*! FORCE INDEX (PRIMARY) */
LEFT JOIN message m /*! FORCE INDEX (PRIMARY) */ ON m.queue_id = r.message_queue_id AND m.`offset` = r.message_offset
WHERE r.queue_id = ? AND r.`offset` >= ? AND r.`offset` < ?;

-- name: rewrite
-- What is remembered of a message's attempts.
UPDATE redelivery SET history = ? WHERE queue_id = ? AND `offset` = ?;
