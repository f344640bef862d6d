-- name: of_topics
-- All groups of the topics.
SELECT id, topic_id, name, ladder, on_exhausted, concurrency, created_at, paused FROM consumer_group
WHERE topic_id IN (?*) ORDER BY topic_id, name;

-- name: find
-- The group of this name.
SELECT id, topic_id, name, ladder, on_exhausted, concurrency, created_at, paused FROM consumer_group
WHERE topic_id = ? AND name = ?;

-- name: add
-- A group that is not there yet.
INSERT IGNORE INTO consumer_group (topic_id, name, ladder, on_exhausted, concurrency, created_at) VALUES ?;

-- name: change
-- What an operator may change of a group.
UPDATE consumer_group SET ladder = ?, on_exhausted = ? WHERE id = ?;

-- name: seen
-- When somebody last asked for each group of a topic; a new group counts as asked for.
SELECT id, CASE WHEN seen_at > created_at THEN seen_at ELSE created_at END FROM consumer_group WHERE topic_id = ?;

-- name: see
-- Somebody asked for this group.
UPDATE consumer_group SET seen_at = ? WHERE id = ?;

-- name: limit
-- How many messages its clients may have in hand at once.
UPDATE consumer_group SET concurrency = ? WHERE id = ?;

-- name: pause
-- Whether its clients are given nothing.
UPDATE consumer_group SET paused = ? WHERE id = ?;

-- name: paused
-- Those whose clients are given nothing.
SELECT id FROM consumer_group /*! FORCE INDEX (idx_consumer_group_paused) */ WHERE paused = 1;

-- name: of_broadcasts
-- All groups of broadcast topics.
SELECT g.id FROM consumer_group g JOIN topic t ON t.id = g.topic_id WHERE t.kind = 1;

-- name: lock
-- A group that is there, for update.
SELECT id FROM consumer_group WHERE id = ? /*! FOR UPDATE */;

-- name: remove
-- Groups that are no more.
DELETE FROM consumer_group WHERE id IN (?*);

-- name: topics_of
-- The topics of groups.
SELECT id, topic_id FROM consumer_group /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*);

-- name: names
-- The names of all groups.
SELECT id, topic_id, name FROM consumer_group;
