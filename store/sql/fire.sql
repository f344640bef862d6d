-- name: add
-- What became of fire times; each has one end.
INSERT IGNORE INTO fire (schedule_id, fire_at, message_id, outcome, `at`, missed_until) VALUES ?;

-- name: among
-- Which of these fire times have had their turn.
SELECT fire_at, outcome, missed_until FROM fire /*! FORCE INDEX (PRIMARY) */ WHERE schedule_id = ? AND fire_at IN (?*);

-- name: some
-- What became of some fire times of a schedule.
SELECT schedule_id, fire_at, message_id, outcome, `at` FROM fire /*! FORCE INDEX (PRIMARY) */
WHERE schedule_id = ? AND fire_at IN (?*);

-- name: page
-- What became of a schedule's fire times, the latest first, from before one.
SELECT fire_at, message_id, outcome, `at`, missed_until FROM fire /*! FORCE INDEX (PRIMARY) */
WHERE schedule_id = ? AND fire_at < ? ORDER BY fire_at DESC LIMIT ?;

-- name: edge
-- The fire time of a schedule that has so many later ones.
SELECT fire_at, outcome FROM fire /*! FORCE INDEX (PRIMARY) */ WHERE schedule_id = ? ORDER BY fire_at DESC LIMIT 1 OFFSET ?;

-- name: last
-- When the last of a schedule's fire times had its end, of those up to one and up to then. (SQLite would go by that time.)
SELECT MAX(`at`) FROM fire /*! FORCE INDEX (PRIMARY) */ WHERE schedule_id = ? AND fire_at <= ? AND `at` + 0 <= ?;

-- name: forget
-- The same fire times.
DELETE /*+ INDEX(fire PRIMARY) */ FROM fire WHERE schedule_id = ? AND fire_at <= ? AND `at` <= ?;

-- name: remove_ahead
-- Fire times of a schedule that are ahead and have this end.
DELETE /*+ INDEX(fire PRIMARY) */ FROM fire WHERE schedule_id = ? AND fire_at > ? AND outcome = ?;

-- name: remove_all
-- All fire times of a schedule that is no more.
DELETE /*+ INDEX(fire PRIMARY) */ FROM fire WHERE schedule_id = ?;

-- name: end
-- What became of a fire time that was kept back.
UPDATE fire SET message_id = ?, outcome = ?, `at` = ? WHERE schedule_id = ? AND fire_at = ?;

-- name: remove
-- A fire time of a schedule is to have another end.
DELETE FROM fire WHERE schedule_id = ? AND fire_at = ?;
