-- name: all
-- Every client whose liveness is watched.
SELECT name, registered_at, renewed_at FROM client;

-- name: put
-- Clients that have renewed.
REPLACE INTO client (name, registered_at, renewed_at) VALUES ?;

-- name: remove
-- Clients that are dead or deregistered.
DELETE FROM client WHERE name IN (?*);
