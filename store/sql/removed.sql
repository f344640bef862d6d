-- name: add
-- What is no more, and is to be cleared away.
INSERT IGNORE INTO removed (topic_id, group_id, queue_id, removed_at) VALUES ?;

-- name: all
-- Everything of which something may be left.
SELECT topic_id, group_id, queue_id, removed_at FROM removed ORDER BY topic_id, group_id, queue_id;

-- name: find
-- When it was removed.
SELECT removed_at FROM removed WHERE topic_id = ? AND group_id = ? AND queue_id = ?;

-- name: remove
-- Nothing of it is left.
DELETE FROM removed WHERE topic_id = ? AND group_id = ? AND queue_id = ?;
