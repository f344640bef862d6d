-- name: add
-- Claims that ended, into the log.
INSERT INTO delivery (group_id, queue_id, number, claim, token, client, `first`, size, claimed_at, ended_at, outcome,
  settled_at) VALUES ?;

-- name: find
-- A claim that ended.
SELECT token, `first`, size, outcome FROM delivery /*! FORCE INDEX (idx_delivery_multi_first) */
WHERE group_id = ? AND queue_id = ? AND `first` = ? AND claim = ?;

-- name: find_all
-- Claims that ended, by where they began.
SELECT group_id, queue_id, claim, token, outcome FROM delivery /*! FORCE INDEX (idx_delivery_multi_first) */
WHERE (group_id, queue_id, `first`) WITHIN (?*);

-- name: of_spans
-- The ended claims that begin in stretches of queues. (A claim holds 1000 messages at most: what held an offset begins
-- near it.)
SELECT group_id, queue_id, client, `first`, size, claimed_at, outcome, settled_at
FROM delivery /*! FORCE INDEX (idx_delivery_multi_first) */
WHERE (group_id, queue_id, `first`) WITHIN (?*);

-- name: oldest
-- The head of the log of a cursor, from a number on.
SELECT number AS place, ended_at AS at FROM delivery /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND queue_id = ? AND number >= ? ORDER BY number LIMIT ?;

-- name: expunge
-- A stretch of the log that is past its time.
DELETE /*+ INDEX(delivery PRIMARY) */ FROM delivery WHERE group_id = ? AND queue_id = ? AND number >= ? AND number < ?;

-- name: unarchived
-- The claims around a stretch of a queue whose entries are at or behind a number.
SELECT `first`, size FROM delivery /*! FORCE INDEX (idx_delivery_multi_first) */
WHERE group_id = ? AND queue_id = ? AND `first` > ? AND `first` <= ? AND number >= ?;

-- name: around
-- The ended claims of a cursor that begin behind one offset and up to another.
SELECT number, claim, client, `first`, size, claimed_at, ended_at, outcome, settled_at
FROM delivery /*! FORCE INDEX (idx_delivery_multi_first) */
WHERE group_id = ? AND queue_id = ? AND `first` > ? AND `first` <= ?;
