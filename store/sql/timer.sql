-- name: lock
-- The timers of these keys that nobody else is working on, for update, in key order.
SELECT topic_id, `key`, id, revision, first_at FROM timer /*! FORCE INDEX (PRIMARY) */ WHERE (topic_id, `key`) IN (?*)
ORDER BY topic_id, `key` /*! FOR UPDATE SKIP LOCKED */;

-- name: probe
-- The timers of these keys, for update. It fails at once where somebody holds one, also one not committed yet, which is
-- seen by no other look.
SELECT topic_id, `key`, id, revision, first_at FROM timer /*! FORCE INDEX (PRIMARY) */ WHERE (topic_id, `key`) IN (?*)
/*! FOR UPDATE NOWAIT */;

-- name: find
-- The timers of these keys, whoever works on them.
SELECT topic_id, `key`, id, revision, first_at FROM timer /*! FORCE INDEX (PRIMARY) */ WHERE (topic_id, `key`) IN (?*);

-- name: add
-- Timers of keys that have none.
INSERT INTO timer (topic_id, `key`, id, revision, first_at) VALUES ?;

-- name: put
-- Timers that are locked, in place of what they were.
REPLACE INTO timer (topic_id, `key`, id, revision, first_at) VALUES ?;

-- name: lock_or_add
-- Locks the timer of a key; one that is not there is put in its place, of no message. (A SELECT ... FOR UPDATE would at
-- REPEATABLE READ lock the gap where it is not.)
INSERT INTO timer (topic_id, `key`, id, revision, first_at) VALUES (?, ?, 0, 0, 0)
/*! ON DUPLICATE KEY UPDATE revision = revision */;

-- name: locked
-- The timer that `lock_or_add` has locked; of message 0 when there was none.
SELECT topic_id, `key`, id, revision, first_at FROM timer WHERE topic_id = ? AND `key` = ? /*! FOR UPDATE */;

-- name: change
-- The timer that `lock_or_add` has locked gets another message.
UPDATE timer SET id = ?, revision = ?, first_at = ? WHERE topic_id = ? AND `key` = ?;

-- name: page
-- Timers of all topics in their order, from behind one on.
SELECT topic_id, `key`, id FROM timer /*! FORCE INDEX (PRIMARY) */ WHERE topic_id = ? AND `key` > ? OR topic_id > ?
ORDER BY topic_id, `key` LIMIT ?;

-- name: of_topic
-- A page of the timers of a topic by key, from behind one on.
SELECT topic_id, `key`, id, revision, first_at FROM timer /*! FORCE INDEX (PRIMARY) */
WHERE topic_id = ? AND `key` > ? ORDER BY `key` LIMIT ?;

-- name: some
-- Timers of a topic, a bounded batch.
SELECT `key`, id FROM timer /*! FORCE INDEX (PRIMARY) */ WHERE topic_id = ? ORDER BY `key` LIMIT ?;

-- name: remove
-- Timers that are gone.
DELETE /*+ INDEX(timer PRIMARY) */ FROM timer WHERE (topic_id, `key`) IN (?*);
