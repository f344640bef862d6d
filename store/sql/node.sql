-- name: all
-- The servers that are at work, or were.
SELECT boot, name, slot, level, started_at, renewed_at, facts FROM node ORDER BY slot;

-- name: look
-- The same, each row with the database's clock as it was asked, in microseconds; 0 where the host has it, or where the
-- server takes no writes. A user with rights enough could write there all the same, see `mysql.read_only`.
SELECT boot, name, slot, level, started_at, renewed_at, facts,
  0 /*! + TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))
    * (CAST(@@global.read_only AS CHAR) IN ('0', 'OFF') AND CAST(@@global.innodb_read_only AS CHAR) IN ('0', 'OFF')) */ AS asked_at
FROM node ORDER BY slot;

-- name: add
-- A server begins. Refused when its slot is taken.
INSERT INTO node (boot, name, slot, level, started_at, renewed_at, facts) VALUES ?;

-- name: renew
-- It is there.
UPDATE node SET renewed_at = ?, facts = ? WHERE boot = ?;

-- name: bury
-- It has not renewed since this was read.
DELETE FROM node WHERE boot = ? AND renewed_at = ?;

-- name: remove
-- It stops.
DELETE FROM node WHERE boot = ?;
