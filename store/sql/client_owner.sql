-- name: add
-- Whose a client is that nobody has used.
INSERT IGNORE INTO client_owner (client, access_key, used_at) VALUES ?;

-- name: lock
-- Whose a client is, for update.
SELECT access_key, used_at FROM client_owner WHERE client = ? /*! FOR UPDATE */;

-- name: find
-- Whose a client is.
SELECT access_key, used_at FROM client_owner WHERE client = ?;

-- name: take
-- A client is this key's, and was used just now.
UPDATE client_owner SET access_key = ?, used_at = ? WHERE client = ?;

-- name: use
-- A client is in use.
UPDATE client_owner SET used_at = ? WHERE client = ?;

-- name: leave
-- A client is nobody's any more.
DELETE FROM client_owner WHERE client = ?;

-- name: unused
-- Clients that were not used for long, and so are nobody's any more.
SELECT client FROM client_owner /*! FORCE INDEX (idx_client_owner_used_at) */ WHERE used_at < ? ORDER BY used_at LIMIT ?;

-- name: expunge
-- One of them, unless it was used since.
DELETE FROM client_owner WHERE client = ? AND used_at < ?;
