-- name: find
-- Requests of a topic answered before.
SELECT `key`, fingerprint, receipts, expires_at FROM idempotency WHERE topic_id = ? AND `key` IN (?*);

-- name: add
-- Requests with their answers.
INSERT INTO idempotency (topic_id, `key`, fingerprint, receipts, expires_at) VALUES ?;

-- name: remove
-- Requests whose window is over and that come again.
DELETE FROM idempotency WHERE topic_id = ? AND `key` IN (?*);

-- name: clean
-- Requests whose window is over, a bounded batch.
DELETE FROM idempotency WHERE (topic_id, `key`) IN
  (SELECT topic_id, `key` FROM (SELECT topic_id, `key` FROM idempotency WHERE expires_at < ? LIMIT ?) AS past);
