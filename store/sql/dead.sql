-- name: add
-- A message to the dead letters, with a copy.
INSERT INTO dead (group_id, id, dead_at, history, queue_id, `offset`, `key`, ordering_key, tag, headers, content_type,
  body, accepted_at, deliver_at)
SELECT ?, id, ?, ?, queue_id, `offset`, `key`, ordering_key, tag, headers, content_type, body, accepted_at, deliver_at
FROM message WHERE queue_id = ? AND `offset` = ?;

-- name: remove
-- A dead letter that is exhausted a second time gives way to the newer one.
DELETE FROM dead WHERE group_id = ? AND id = ?;

-- name: list
-- A page of a group's dead letters.
SELECT id, dead_at, history, queue_id, `offset`, `key`, ordering_key, tag, headers, content_type, body, accepted_at,
  deliver_at FROM dead WHERE group_id = ? AND id > ? ORDER BY id LIMIT ?;

-- name: of_message
-- The groups in whose dead letters a message is.
SELECT group_id, dead_at, history FROM dead WHERE id = ? AND group_id IN (?*);
