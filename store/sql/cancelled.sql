-- name: add
-- Messages cancelled in time.
INSERT INTO cancelled (shard, id, nonce, topic_id, `key`, accepted_at, deliver_at, cancelled_at) VALUES ?;

-- name: find
-- The cancelled among these.
SELECT id, topic_id, `key`, accepted_at, deliver_at, cancelled_at
FROM cancelled /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) IN (?*);

-- name: landed
-- The message of this id, if it is ours.
SELECT id FROM cancelled WHERE shard = ? AND id = ? AND nonce = ?;

-- name: remove
-- A row that was put here to see whether there was one.
DELETE FROM cancelled WHERE shard = ? AND id = ?;
