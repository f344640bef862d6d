-- name: add
-- Cursors that are not there yet.
INSERT IGNORE INTO `cursor` (group_id, queue_id, origin, position, next_claim, next_delivery, acked, dead, retried,
  expired, skipped, parked) VALUES ?;

-- name: lock
-- A group's cursors, for update, in key order.
SELECT queue_id, position, next_claim, next_delivery, acked, dead, retried, expired, skipped, parked
FROM `cursor` /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND queue_id IN (?*) ORDER BY queue_id /*! FOR UPDATE */;

-- name: free
-- The same cursors, those among them that nobody else is working on.
SELECT queue_id, position, next_claim, next_delivery, acked, dead, retried, expired, skipped, parked
FROM `cursor` /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND queue_id IN (?*)
ORDER BY queue_id /*! FOR UPDATE SKIP LOCKED */;

-- name: there
-- Which of these cursors there are.
SELECT queue_id, position FROM `cursor` /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND queue_id IN (?*);

-- name: behind
-- The queues of a group with something to claim, retry queues first, then those with most of it.
SELECT c.queue_id, q.next_offset - c.position AS many
FROM `cursor` c /*! FORCE INDEX (PRIMARY) */ JOIN queue q /*! FORCE INDEX (PRIMARY) */ ON q.id = c.queue_id
WHERE c.group_id = ? AND c.position < q.next_offset ORDER BY q.group_id = 0, many DESC LIMIT ?;

-- name: move
-- What a turn of the group changed.
UPDATE `cursor` SET position = ?, next_claim = ?, next_delivery = ?, acked = ?, dead = ?, retried = ?, expired = ?,
  skipped = ?, parked = ? WHERE group_id = ? AND queue_id = ?;

-- name: of_group
-- A group's cursors with the ends of their queues.
SELECT q.number, q.group_id, c.position, q.next_offset, c.acked, c.dead, c.retried, c.origin, c.expired, c.skipped, c.queue_id,
  c.sought, c.redriven, c.cleared, c.parked
FROM `cursor` c JOIN queue q ON q.id = c.queue_id WHERE c.group_id = ? ORDER BY q.group_id, q.number;

-- name: lags
-- For each of these groups: what it has yet to claim, what was ever put on the ladder or parked, and what came back.
SELECT c.group_id, SUM(q.next_offset - c.position), SUM(c.retried + c.redriven + c.parked),
  SUM(CASE WHEN q.group_id = 0 THEN 0 ELSE q.next_offset END)
FROM `cursor` c /*! FORCE INDEX (PRIMARY) */ JOIN queue q /*! FORCE INDEX (PRIMARY) */ ON q.id = c.queue_id
WHERE c.group_id IN (?*) GROUP BY c.group_id;

-- name: counts
-- For each of these groups: what it has yet to claim, what ever left for its retry queues and what came there, what died,
-- and what of that is a dead letter still.
SELECT c.group_id, SUM(q.next_offset - c.position), SUM(c.retried + c.redriven + c.parked),
  SUM(CASE WHEN q.group_id = 0 THEN 0 ELSE q.next_offset END), SUM(c.dead), SUM(c.dead - c.cleared)
FROM `cursor` c /*! FORCE INDEX (PRIMARY) */ JOIN queue q /*! FORCE INDEX (PRIMARY) */ ON q.id = c.queue_id
WHERE c.group_id IN (?*) GROUP BY c.group_id;

-- name: claimable
-- Those of these groups that have something yet to claim.
SELECT DISTINCT c.group_id
FROM `cursor` c /*! FORCE INDEX (PRIMARY) */ JOIN queue q /*! FORCE INDEX (PRIMARY) */ ON q.id = c.queue_id
WHERE c.group_id IN (?*) AND c.position < q.next_offset;

-- name: leftovers
-- The ends of these groups' logs, and their dead letters, by queue: where there are any.
SELECT group_id, queue_id, next_delivery, dead - cleared FROM `cursor` /*! FORCE INDEX (PRIMARY) */
WHERE group_id IN (?*) AND (next_delivery > 0 OR dead > cleared);

-- name: backlogs
-- For each topic of which there is something to claim: how much, all its groups together. A scan of the cursors.
SELECT q.topic_id, SUM(q.next_offset - c.position) FROM `cursor` c JOIN queue q ON q.id = c.queue_id
WHERE q.next_offset > c.position GROUP BY q.topic_id;

-- name: standings
-- For each group that has something to claim or a dead letter: how much. A scan of the cursors.
SELECT c.group_id, SUM(q.next_offset - c.position), SUM(c.dead - c.cleared) FROM `cursor` c JOIN queue q ON q.id = c.queue_id
WHERE q.next_offset > c.position OR c.dead > c.cleared GROUP BY c.group_id;

-- name: most
-- The groups that have most to claim or resting on the ladder, and how much. A scan of the cursors.
SELECT group_id, waits FROM (
  SELECT c.group_id AS group_id, SUM(q.next_offset - c.position + c.retried + c.redriven + c.parked
    - CASE WHEN q.group_id = 0 THEN 0 ELSE q.next_offset END) AS waits
  FROM `cursor` c JOIN queue q ON q.id = c.queue_id GROUP BY c.group_id
) AS counts WHERE waits > 0 ORDER BY waits DESC, group_id LIMIT ?;

-- name: expire
-- The cursor moves on over what retention takes.
UPDATE `cursor` SET position = ?, expired = ? WHERE group_id = ? AND queue_id = ?;

-- name: position
-- How far a group is in a queue.
SELECT position FROM `cursor` WHERE group_id = ? AND queue_id = ?;

-- name: seek
-- An operator moved it; `sought` keeps the books.
UPDATE `cursor` SET position = ?, sought = sought + ?, retried = retried + ?, acked = acked + ?, next_delivery = ?
WHERE group_id = ? AND queue_id = ?;

-- name: redriven
-- An operator put messages into this retry queue, some of them out of the dead letters.
UPDATE `cursor` SET redriven = redriven + ?, cleared = cleared + ? WHERE group_id = ? AND queue_id = ?;

-- name: cleared
-- Dead letters of this queue's messages are gone.
UPDATE `cursor` SET cleared = cleared + ? WHERE group_id = ? AND queue_id = ?;

-- name: remove
-- The cursors of groups that are no more.
DELETE /*+ INDEX(`cursor` PRIMARY) */ FROM `cursor` WHERE group_id IN (?*);

-- name: all
-- The cursors of all groups, with their counters.
SELECT group_id, queue_id, origin, position, next_claim, next_delivery, acked, dead, retried, expired, skipped, parked,
  sought, redriven, cleared FROM `cursor` ORDER BY group_id, queue_id;
