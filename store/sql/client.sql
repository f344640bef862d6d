-- name: all
-- Every client whose liveness is watched.
SELECT name, registered_at, renewed_at FROM client;

-- name: lock
-- Those of these clients that are watched, for update.
SELECT name, registered_at, renewed_at FROM client /*! FORCE INDEX (PRIMARY) */
WHERE name IN (?*) ORDER BY name /*! FOR UPDATE */;

-- name: free
-- Those of these clients that nobody else is working on, for update.
SELECT name, registered_at, renewed_at FROM client /*! FORCE INDEX (PRIMARY) */
WHERE name IN (?*) ORDER BY name /*! FOR UPDATE SKIP LOCKED */;

-- name: there
-- Which of these clients are watched. (With the time, so that no index alone has it all.)
SELECT name, renewed_at FROM client /*! FORCE INDEX (PRIMARY) */ WHERE name IN (?*);

-- name: put
-- Clients that have registered, or were heard of.
REPLACE INTO client (name, registered_at, renewed_at) VALUES ?;

-- name: bury
-- A client goes, unless it was heard of since.
DELETE FROM client WHERE name = ? AND renewed_at <= ?;
