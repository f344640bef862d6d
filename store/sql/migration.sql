-- name: applied
-- The migrations applied, with the checksum of each.
SELECT version, checksum FROM migration;
