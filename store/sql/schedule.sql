-- name: add
-- A schedule that is not there yet, and waits for nothing so far.
INSERT IGNORE INTO schedule (name, topic_id, queue_id, spec, revision, paused, made_at, last_at) VALUES ?;

-- name: lock
-- A schedule by its name, for update.
SELECT id, name, topic_id, queue_id, spec, revision, paused, made_at, last_at, last_id, next_at, next_id
FROM schedule WHERE name = ? /*! FOR UPDATE */;

-- name: find
-- A schedule by its name.
SELECT id, name, topic_id, queue_id, spec, revision, paused, made_at, last_at, last_id, next_at, next_id
FROM schedule WHERE name = ?;

-- name: page
-- Schedules by name, from behind one.
SELECT id, name, topic_id, queue_id, spec, revision, paused, made_at, last_at, last_id, next_at, next_id
FROM schedule /*! FORCE INDEX (udx_schedule_name) */ WHERE name > ? ORDER BY name LIMIT ?;

-- name: lock_next
-- The schedules that wait for these messages and that nobody else is working on, for update.
SELECT id, name, topic_id, queue_id, spec, revision, paused, made_at, last_at, last_id, next_at, next_id
FROM schedule /*! FORCE INDEX (udx_schedule_next_id) */ WHERE next_id IN (?*) ORDER BY next_id /*! FOR UPDATE SKIP LOCKED */;

-- name: waits
-- Which of these messages a schedule waits for, whoever works on it. (With the name, so that no index alone has it all.)
SELECT next_id, name FROM schedule /*! FORCE INDEX (udx_schedule_next_id) */ WHERE next_id IN (?*);

-- name: overdue
-- The messages of schedules whose fire time is past, a bounded batch, the oldest first, from behind one.
SELECT next_at, id, next_id FROM schedule /*! FORCE INDEX (idx_schedule_next_at) */
WHERE (next_at > ? OR next_at = ? AND id > ?) AND next_at < ? ORDER BY next_at, id LIMIT ?;

-- name: change
-- What a schedule says, and whether it rests; locked before.
UPDATE schedule SET topic_id = ?, queue_id = ?, spec = ?, revision = ?, paused = ? WHERE id = ?;

-- name: advance
-- What a schedule has sent last and waits for next; locked before.
UPDATE schedule SET last_at = ?, last_id = ?, next_at = ?, next_id = ? WHERE id = ?;

-- name: remove
-- A schedule is no more; locked before.
DELETE FROM schedule WHERE id = ?;

-- name: ids
-- Schedules by id, from behind one.
SELECT id, revision FROM schedule /*! FORCE INDEX (PRIMARY) */ WHERE id > ? ORDER BY id LIMIT ?;

-- name: names
-- Every schedule, of which topic it is, and its name.
SELECT id, topic_id, name FROM schedule;

-- name: of_topic
-- Schedules of a topic, a bounded batch. (With the name, so that no index alone has it all.)
SELECT id, name FROM schedule /*! FORCE INDEX (idx_schedule_topic_id) */ WHERE topic_id = ? LIMIT ?;
