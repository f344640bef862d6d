-- name: add
-- Messages that go straight to the stream.
INSERT INTO message (queue_id, `offset`, id, nonce, `key`, ordering_key, tag, headers, content_type, body, accepted_at,
  deliver_at, streamed_at) VALUES ?;

-- name: promote
-- Due messages, locked before, into the stream at consecutive offsets, in order of their time. The bodies never leave
-- the server.
INSERT INTO message (queue_id, `offset`, id, nonce, `key`, ordering_key, tag, headers, content_type, body, accepted_at,
  deliver_at, streamed_at)
SELECT queue_id, ? + ROW_NUMBER() OVER (ORDER BY deliver_at, accepted_at, id) - 1, id, nonce, `key`, ordering_key, tag,
  headers, content_type, body, accepted_at, deliver_at, ?
FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) IN (?*);

-- name: range
-- A stretch of a queue, in order.
SELECT `offset`, id, `key`, ordering_key, tag, headers, content_type, body, accepted_at, deliver_at, streamed_at
FROM message /*! FORCE INDEX (PRIMARY) */ WHERE queue_id = ? AND `offset` >= ? AND `offset` < ?
ORDER BY `offset` LIMIT ?;

-- name: tags
-- The tags of a stretch of a queue, in order.
SELECT `offset`, tag FROM message /*! FORCE INDEX (PRIMARY) */ WHERE queue_id = ? AND `offset` >= ? AND `offset` < ?
ORDER BY `offset` LIMIT ?;

-- name: ids
-- The ids of a stretch of a queue.
SELECT `offset`, id FROM message WHERE queue_id = ? AND `offset` >= ? AND `offset` < ?;

-- name: find
-- Where the messages lie in the stream, by id.
SELECT m.id, q.topic_id, m.queue_id, q.number, m.`offset`, m.`key`, m.ordering_key, m.tag, m.headers, m.content_type,
  m.body, m.accepted_at, m.deliver_at, m.streamed_at
FROM message m JOIN queue q ON q.id = m.queue_id WHERE m.id IN (?*);

-- name: landed
-- The message of this id, if it is ours.
SELECT id FROM message WHERE id = ? AND nonce = ?;
