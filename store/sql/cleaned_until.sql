-- name: add
-- What is cleaned for the first time.
INSERT IGNORE INTO cleaned_until (what, until) VALUES ?;

-- name: move
-- The time up to which it may be gone moves on, and never back.
UPDATE cleaned_until SET until = CASE WHEN until < ? THEN ? ELSE until END WHERE what = ?;

-- name: all
-- Up to when what may be gone.
SELECT what, until FROM cleaned_until;
