-- name: add
-- What a transaction changes of the forecast: a row of its own, for which nobody waits.
INSERT INTO forecast_change (id, topic_id, changes) VALUES ?;

-- name: some
-- Some changes, and how large they are.
SELECT id, LENGTH(changes) FROM forecast_change ORDER BY id LIMIT ?;

-- name: find
-- These changes.
SELECT id, topic_id, changes FROM forecast_change /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*);

-- name: remove
-- Changes that are added up. (A scan of all would wait for each that is being written.)
DELETE /*+ INDEX(forecast_change PRIMARY) */ FROM forecast_change WHERE id IN (?*);
