-- name: find
-- Requests of a topic answered before.
SELECT `key`, fingerprint, receipts, expires_at FROM idempotency WHERE topic_id = ? AND `key` IN (?*);

-- name: add
-- Requests with their answers.
INSERT INTO idempotency (topic_id, `key`, fingerprint, receipts, expires_at) VALUES ?;

-- name: remove
-- Those among these requests whose window is over: one may have come again meanwhile, and is new.
DELETE FROM idempotency WHERE topic_id = ? AND `key` IN (?*) AND expires_at <= ?;

-- name: lock
-- Those among these that are there; they stay so until the transaction ends. (With a column more, so that no index
-- alone has it all.)
SELECT `key`, expires_at FROM idempotency /*! FORCE INDEX (PRIMARY) */
WHERE topic_id = ? AND `key` IN (?*) /*! FOR UPDATE */;

-- name: past
-- Requests whose window is over, a bounded batch.
SELECT topic_id, `key` FROM idempotency /*! FORCE INDEX (idx_idempotency_expires_at) */
WHERE expires_at < ? ORDER BY expires_at LIMIT ?;

-- name: forget
-- Those among these requests of a topic whose window is over; one may have come again meanwhile.
DELETE FROM idempotency WHERE topic_id = ? AND `key` IN (?*) AND expires_at < ?;

-- name: between
-- Some of a topic in a stretch of keys, in their order.
SELECT `key`, receipts, expires_at FROM idempotency /*! FORCE INDEX (PRIMARY) */
WHERE topic_id = ? AND `key` >= ? AND `key` < ? ORDER BY `key` LIMIT ?;

-- name: some
-- Requests of a topic, a bounded batch.
SELECT `key` FROM idempotency /*! FORCE INDEX (PRIMARY) */ WHERE topic_id = ? ORDER BY `key` LIMIT ?;
