-- name: all
-- Where the messages of groups are posted to.
SELECT group_id, url, secrets, timeout, max_in_flight, changed_at, off_at, broken_at, because FROM push ORDER BY group_id;

-- name: find
-- The same of one group.
SELECT group_id, url, secrets, timeout, max_in_flight, changed_at, off_at, broken_at, because FROM push
WHERE group_id = ?;

-- name: lock
-- When it was set, for update.
SELECT changed_at FROM push WHERE group_id = ? /*! FOR UPDATE */;

-- name: put
-- It is set, whatever it was before.
REPLACE INTO push (group_id, url, secrets, timeout, max_in_flight, changed_at, off_at, broken_at, because) VALUES ?;

-- name: switch_off
-- The endpoint is gone, unless it was set anew since.
UPDATE push SET off_at = ?, broken_at = NULL, because = ? WHERE group_id = ? AND changed_at = ? AND off_at IS NULL;

-- name: broke
-- The endpoint is away, unless it was set anew since.
UPDATE push SET broken_at = ?, because = ?
WHERE group_id = ? AND changed_at = ? AND off_at IS NULL AND broken_at IS NULL;

-- name: mended
-- The endpoint is there again.
UPDATE push SET broken_at = NULL, because = NULL WHERE group_id = ? AND changed_at = ? AND broken_at IS NOT NULL;

-- name: remove
-- It is no more.
DELETE FROM push WHERE group_id IN (?*);
