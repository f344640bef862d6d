-- name: add
-- Messages under their keys.
INSERT INTO label (topic_id, `key`, id) VALUES ?;

-- name: find
-- The messages of a key, oldest due first.
SELECT id FROM label WHERE topic_id = ? AND `key` = ? AND id > ? ORDER BY id LIMIT ?;

-- name: remove
-- Messages that are gone, each a row (topic_id, key, id).
DELETE /*+ INDEX(label PRIMARY) */ FROM label WHERE (topic_id, `key`, id) IN (?*);

-- name: some
-- Labels of a topic, a bounded batch.
SELECT topic_id, `key`, id FROM label /*! FORCE INDEX (PRIMARY) */ WHERE topic_id = ? ORDER BY `key`, id LIMIT ?;

-- name: ids
-- The messages of a key in these topics.
SELECT id FROM label WHERE topic_id IN (?*) AND `key` = ?;
