-- name: add
-- A message is erased; one that was before stays as it is.
INSERT IGNORE INTO erased (id, topic_id, erased_at) VALUES ?;

-- name: find
-- The erased among these messages.
SELECT id, topic_id, erased_at, lake_at FROM erased /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*);

-- name: again
-- There was something of a message once more: the lake may have that, too.
UPDATE erased SET topic_id = ?, lake_at = NULL WHERE id = ?;

-- name: pending
-- Messages that the lake may still have, a bounded batch. (With the topic, so that no index alone has it all.)
SELECT id, topic_id, erased_at FROM erased /*! FORCE INDEX (idx_erased_lake_at) */
WHERE lake_at IS NULL ORDER BY id LIMIT ?;

-- name: scan
-- All erased messages by id, from behind one, a bounded batch.
SELECT id, topic_id, erased_at FROM erased /*! FORCE INDEX (PRIMARY) */ WHERE id > ? ORDER BY id LIMIT ?;

-- name: applied
-- The lake has a message no more.
UPDATE erased /*! FORCE INDEX (PRIMARY) */ SET lake_at = ? WHERE id = ? AND lake_at IS NULL;
