-- name: add
-- Guards that messages name from now on.
INSERT IGNORE INTO guard (name) VALUES ?;

-- name: all
-- Guards that messages have named.
SELECT name FROM guard;

-- name: remove
-- Nothing waits that names it.
DELETE FROM guard WHERE name = ?;
