-- name: add
-- A key.
INSERT INTO access_key (name, digest, scopes, created_at) VALUES ?;

-- name: all
-- All keys that there ever were.
SELECT name, digest, scopes, created_at, revoked_at FROM access_key ORDER BY name;

-- name: revoke
-- A key is no more, from a time on.
UPDATE access_key SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL;
