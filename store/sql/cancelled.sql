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

-- name: scan
-- A page of one shard, to look through.
SELECT id, topic_id, deliver_at FROM cancelled /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND id > ? ORDER BY id LIMIT ?;
