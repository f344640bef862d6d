-- name: lock
-- A replay that is under way, or one with a name, for update.
SELECT request, position, until FROM replay WHERE group_id = ? AND queue_id = ? /*! FOR UPDATE */;

-- name: remove
-- A replay that is done, or given up for another.
DELETE FROM replay WHERE group_id = ? AND queue_id = ?;

-- name: add
-- How far a replay has come.
INSERT INTO replay (group_id, queue_id, request, position, until) VALUES ?;
