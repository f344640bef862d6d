-- name: find
-- The floors of queues that have been cleaned.
SELECT queue_id, floor FROM cleaned /*! FORCE INDEX (PRIMARY) */ WHERE queue_id IN (?*);

-- name: lock
-- The same, for update, in key order: nobody cleans these queues meanwhile, and no group begins in them.
SELECT queue_id, floor FROM cleaned /*! FORCE INDEX (PRIMARY) */ WHERE queue_id IN (?*) ORDER BY queue_id /*! FOR UPDATE */;

-- name: add
-- A queue that is cleaned for the first time.
INSERT IGNORE INTO cleaned (queue_id, floor) VALUES ?;

-- name: move
-- A floor rises, and never sinks.
UPDATE cleaned SET floor = CASE WHEN floor < ? THEN ? ELSE floor END WHERE queue_id = ?;

-- name: remove
-- The floor of a queue that is no more.
DELETE FROM cleaned WHERE queue_id = ?;
