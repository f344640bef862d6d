-- name: add
-- Offsets of a broadcast client that are not there yet.
INSERT IGNORE INTO reader (group_id, client, queue_id, position, turn) VALUES ?;

-- name: lock
-- A client's offsets in a group, for update, in key order.
SELECT queue_id, position FROM reader /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND client = ? ORDER BY queue_id /*! FOR UPDATE */;

-- name: move
-- A client's offset moves; `turn` tells whose doing it was.
UPDATE reader SET position = ?, turn = ? WHERE group_id = ? AND client = ? AND queue_id = ?;

-- name: turn
-- Whether the last move of this offset was ours.
SELECT queue_id FROM reader WHERE group_id = ? AND client = ? AND queue_id = ? AND turn = ?;

-- name: of_group
-- Where the clients of a group are.
SELECT client, queue_id, position FROM reader /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ?;

-- name: forget
-- All offsets of a client that is deregistered.
DELETE /*+ INDEX(reader PRIMARY) */ FROM reader WHERE group_id IN (?*) AND client = ?;
