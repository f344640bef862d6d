-- name: add
-- Messages onto their rungs.
INSERT INTO retry (shard, id, group_id, return_queue_id, message_queue_id, message_offset, message_id, attempt, history,
  failed_at, losses) VALUES ?;

-- name: lock
-- The retries among these that nobody else is working on, for update, in key order; and whether the message is there,
-- of which no lock is taken.
SELECT id, group_id, return_queue_id, message_queue_id, message_offset, message_id, attempt, history, losses,
  EXISTS (SELECT 1 FROM message m WHERE m.queue_id = retry.message_queue_id AND m.`offset` = retry.message_offset
  AND m.id = retry.message_id) AS is_there
FROM retry /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) IN (?*)
ORDER BY shard, id /*! FOR UPDATE SKIP LOCKED */;

-- name: queues
-- To which queue each of these retries goes.
SELECT id, return_queue_id FROM retry /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) IN (?*);

-- name: groups
-- Of which group each of these retries is.
SELECT id, group_id FROM retry /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) IN (?*);

-- name: remove
-- Retries locked before.
DELETE /*+ INDEX(retry PRIMARY) */ FROM retry WHERE (shard, id) IN (?*);

-- name: due
-- The due scan of one shard.
SELECT id FROM retry /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND id >= ? AND id < ? ORDER BY id LIMIT ?;

-- name: of_group
-- How many of a group's messages are on each rung.
SELECT attempt, COUNT(*) FROM retry WHERE group_id = ? GROUP BY attempt;

-- name: of_messages
-- The retries of messages.
SELECT message_id, group_id, id, attempt, history
FROM retry /*! FORCE INDEX (idx_retry_message_id) */ WHERE message_id IN (?*);

-- name: along
-- What rests of a topic's own queue, from an offset on: where the message lies, its id, and when it comes back.
SELECT message_offset, message_id, id >> 21 FROM retry /*! FORCE INDEX (idx_retry_multi_source) */
WHERE message_queue_id = ? AND message_offset >= ? ORDER BY message_offset LIMIT ?;

-- name: some
-- Retries of a group, a bounded batch. (With the message, so that no index alone has it all.)
SELECT id, message_id FROM retry /*! FORCE INDEX (idx_retry_multi_group) */ WHERE group_id = ? ORDER BY attempt LIMIT ?;

-- name: rewrite
-- What is remembered of a message's attempts.
UPDATE retry SET history = ? WHERE shard = ? AND id = ?;

-- name: anywhere
-- The retries of these ids, whichever shard they lie in: of the few that promotion does not find.
SELECT id, shard, group_id, return_queue_id,
  EXISTS (SELECT 1 FROM message m WHERE m.queue_id = retry.message_queue_id AND m.`offset` = retry.message_offset
  AND m.id = retry.message_id) AS is_there
FROM retry /*! FORCE INDEX (PRIMARY) */
WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND id IN (?*);
