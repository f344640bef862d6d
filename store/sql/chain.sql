-- name: lock
-- The chains of these ordering keys of a queue, for update.
SELECT ordering_key, away FROM chain /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND queue_id = ? AND ordering_key IN (?*) ORDER BY ordering_key /*! FOR UPDATE */;

-- name: of_queue
-- All chains of a queue, for update.
SELECT ordering_key, away FROM chain /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND queue_id = ? ORDER BY ordering_key /*! FOR UPDATE */;

-- name: put
-- Chains as they are now.
REPLACE INTO chain (group_id, queue_id, ordering_key, away) VALUES ?;

-- name: remove
-- A chain that is through.
DELETE FROM chain WHERE group_id = ? AND queue_id = ? AND ordering_key = ?;

-- name: some
-- Chains of a queue in a group, a bounded batch.
SELECT ordering_key FROM chain /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND queue_id = ? ORDER BY ordering_key LIMIT ?;
