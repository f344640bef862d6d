-- name: find
-- The topics named.
SELECT id, name, kind, ordered, retention, ladder, sequencer, created_at FROM topic WHERE name IN (?*);

-- name: all
-- Every topic, by name.
SELECT id, name, kind, ordered, retention, ladder, sequencer, created_at FROM topic ORDER BY name;

-- name: add
-- Topics that are not there yet.
INSERT IGNORE INTO topic (name, kind, ordered, retention, ladder, sequencer, created_at) VALUES ?;

-- name: change
-- What an operator may change of a topic.
UPDATE topic SET retention = ?, ladder = ?, sequencer = ? WHERE id = ?;

-- name: names
-- The names of topics.
SELECT id, name FROM topic /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*);

-- name: lock
-- A topic that is there, for update: whoever gives it groups or queues, or removes it, is alone.
SELECT id FROM topic WHERE id = ? /*! FOR UPDATE */;

-- name: hold
-- The same by its name.
SELECT id FROM topic WHERE name = ? /*! FOR UPDATE */;

-- name: remove
-- A topic is no more.
DELETE FROM topic WHERE id = ?;
