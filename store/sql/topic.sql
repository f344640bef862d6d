-- name: find
-- The topics named.
SELECT id, name, kind, ordered, retention, ladder, sequencer, created_at, max_pending, max_rate, release_rate FROM topic WHERE name IN (?*);

-- name: page
-- Topics by id, from behind one.
SELECT id, name, kind, ordered, retention, ladder, sequencer, created_at, max_pending, max_rate, release_rate FROM topic
/*! FORCE INDEX (PRIMARY) */ WHERE id > ? ORDER BY id LIMIT ?;

-- name: by_name
-- Topics by name, from behind one.
SELECT id, name, kind, ordered, retention, ladder, sequencer, created_at, max_pending, max_rate, release_rate FROM topic
/*! FORCE INDEX (udx_topic_name) */ WHERE name > ? ORDER BY name LIMIT ?;

-- name: add
-- Topics that are not there yet.
INSERT IGNORE INTO topic (name, kind, ordered, retention, ladder, sequencer, created_at, max_pending, max_rate, release_rate) VALUES ?;

-- name: change
-- What an operator may change of a topic.
UPDATE topic SET retention = ?, ladder = ?, sequencer = ?, max_pending = ?, max_rate = ?, release_rate = ? WHERE id = ?;

-- name: names
-- The names of topics.
SELECT id, name FROM topic /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*);

-- name: ordered
-- Which of these topics are ordered.
SELECT id, ordered FROM topic /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*);

-- name: lock
-- A topic that is there, for update: whoever gives it groups or queues, or removes it, is alone.
SELECT id FROM topic WHERE id = ? /*! FOR UPDATE */;

-- name: free
-- Those of these topics that nobody else is working on, for update.
SELECT id, name FROM topic /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*) ORDER BY id /*! FOR UPDATE SKIP LOCKED */;

-- name: lock_named
-- The same by its name.
SELECT id FROM topic WHERE name = ? /*! FOR UPDATE */;

-- name: remove
-- A topic is no more.
DELETE FROM topic WHERE id = ?;

-- name: all
-- The names of all topics.
SELECT id, name FROM topic;

-- name: unread
-- The names of topics that have no group.
SELECT name FROM topic WHERE id NOT IN (SELECT topic_id FROM consumer_group);
