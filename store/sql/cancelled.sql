-- name: add
-- Messages cancelled in time.
INSERT INTO cancelled (shard, id, nonce, topic_id, `key`, accepted_at, deliver_at, cancelled_at) VALUES ?;

-- name: find
-- The cancelled among these.
SELECT id, topic_id, `key`, accepted_at, deliver_at, cancelled_at
FROM cancelled /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) IN (?*);

-- name: oldest
-- Cancelled messages of a shard by id, from one id to another.
SELECT id, topic_id, `key`, cancelled_at FROM cancelled /*! FORCE INDEX (PRIMARY) */
WHERE shard = ? AND id >= ? AND id < ? ORDER BY id LIMIT ?;

-- name: expunge
-- Cancelled messages that are past their time.
DELETE /*+ INDEX(cancelled PRIMARY) */ FROM cancelled WHERE (shard, id) IN (?*);
-- name: remove
-- A row that was put here to see whether there was one.
DELETE FROM cancelled WHERE shard = ? AND id = ?;

-- name: scan
-- A page of one shard, to look through.
SELECT id, topic_id, deliver_at FROM cancelled /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND id > ? ORDER BY id LIMIT ?;
