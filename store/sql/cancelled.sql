-- name: add
-- Messages cancelled in time.
INSERT INTO cancelled (shard, id, nonce, topic_id, `key`, accepted_at, deliver_at, cancelled_at) VALUES ?;

-- name: add_suppressed
-- Messages of which their guard said at their time that they are not to be sent.
INSERT INTO cancelled (shard, id, nonce, topic_id, `key`, accepted_at, deliver_at, cancelled_at, reason, guard) VALUES ?;

-- name: find
-- The cancelled among these, and those that their guards ended.
SELECT id, topic_id, `key`, accepted_at, deliver_at, cancelled_at, reason, guard
FROM cancelled /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) IN (?*);

-- name: oldest
-- Cancelled messages of a shard by id, from one id to another.
SELECT id, topic_id, `key`, cancelled_at FROM cancelled /*! FORCE INDEX (PRIMARY) */
WHERE shard = ? AND id >= ? AND id < ? ORDER BY id LIMIT ?;

-- name: shards
-- In which shards there are any: a look at the head of each.
SELECT s.shard FROM (
  SELECT 0 AS shard UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7
  UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11 UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15
) s WHERE EXISTS (SELECT 1 FROM cancelled t /*! FORCE INDEX (PRIMARY) */ WHERE t.shard = s.shard);

-- name: expunge
-- Cancelled messages that are past their time.
DELETE /*+ INDEX(cancelled PRIMARY) */ FROM cancelled WHERE (shard, id) IN (?*);
-- name: remove
-- A row that was put here to see whether there was one.
DELETE FROM cancelled WHERE shard = ? AND id = ?;

-- name: scan
-- A page of one shard, to look through.
SELECT id, topic_id, deliver_at, reason FROM cancelled /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND id > ? ORDER BY id LIMIT ?;
