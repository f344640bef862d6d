-- name: add
-- Offsets of a broadcast client that are not there yet.
INSERT IGNORE INTO reader (group_id, client, queue_id, position, asked_at) VALUES ?;

-- name: lock
-- A client's offsets in a group, for update, in key order.
SELECT queue_id, position, asked_at FROM reader /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND client = ? ORDER BY queue_id /*! FOR UPDATE */;

-- name: free
-- The same, those among them that nobody else is working on.
SELECT queue_id, position FROM reader /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND client = ? ORDER BY queue_id /*! FOR UPDATE SKIP LOCKED */;

-- name: there
-- In which queues a client of a group has an offset.
SELECT queue_id, position FROM reader /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND client = ?;

-- name: move
-- A client's offset moves.
UPDATE reader SET position = ? WHERE group_id = ? AND client = ? AND queue_id = ?;

-- name: of_group
-- Where the clients of a group are.
SELECT client, queue_id, position FROM reader /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ?;

-- name: least
-- For each of these groups and each queue: where the client is that has got least far.
SELECT group_id, queue_id, MIN(position) FROM reader /*! FORCE INDEX (PRIMARY) */
WHERE group_id IN (?*) GROUP BY group_id, queue_id;

-- name: backlogs
-- For each group of which a client has something to read: how much, for those that have got least far. A scan.
SELECT r.group_id, SUM(q.next_offset - r.least)
FROM (SELECT group_id, queue_id, MIN(position) AS least FROM reader GROUP BY group_id, queue_id) r
JOIN queue q ON q.id = r.queue_id WHERE q.next_offset > r.least GROUP BY r.group_id;

-- name: forget
-- All offsets of a client that is deregistered.
DELETE /*+ INDEX(reader PRIMARY) */ FROM reader WHERE group_id IN (?*) AND client = ?;

-- name: see
-- The client has asked; written once a minute.
UPDATE reader SET asked_at = ? WHERE group_id = ? AND client = ?;

-- name: silent
-- Clients of a group that have not asked for long. (With the position, so that no index alone has it all.)
SELECT client, queue_id, position FROM reader /*! FORCE INDEX (idx_reader_multi_asked_at) */
WHERE group_id = ? AND asked_at <= ? ORDER BY asked_at LIMIT ?;

-- name: expunge
-- The offsets of these clients that have not asked since. (NOT, so that SQLite looks them up by their names.)
DELETE /*+ INDEX(reader PRIMARY) */ FROM reader WHERE group_id = ? AND client IN (?*) AND NOT asked_at > ?;

-- name: groups_of
-- The groups in which a client has an offset: a scan, once for each client that goes or comes.
SELECT DISTINCT group_id FROM reader WHERE client = ?;
