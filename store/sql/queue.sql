-- name: of_topics
-- All queues of the topics, the groups' retry queues included.
SELECT id, topic_id, group_id, number FROM queue WHERE topic_id IN (?*) ORDER BY topic_id, group_id, number;

-- name: of_group
-- The retry queues of a group.
SELECT id, topic_id, group_id, number FROM queue WHERE topic_id = ? AND group_id = ? ORDER BY number;

-- name: add
-- Queues that are not there yet.
INSERT IGNORE INTO queue (topic_id, group_id, number, next_offset, straight, holes) VALUES ?;

-- name: lock
-- The sequences of the queues, for update, in the one order that everybody keeps; and whose each is, as in `offsets`.
SELECT id, next_offset, CASE group_id WHEN 0 THEN topic_id ELSE -group_id END AS owner
FROM queue /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*) ORDER BY id /*! FOR UPDATE */;

-- name: free
-- The sequences among these that nobody else is working on, for update; and whose each is.
SELECT id, next_offset, CASE group_id WHEN 0 THEN topic_id ELSE -group_id END AS owner
FROM queue /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*) ORDER BY id /*! FOR UPDATE SKIP LOCKED */;

-- name: advance
-- Offsets were drawn.
UPDATE queue SET next_offset = ? WHERE id = ?;

-- name: draw
-- Offsets are drawn, all in one; on MySQL LAST_INSERT_ID() is then the first of them.
UPDATE queue SET next_offset = /*! LAST_INSERT_ID( */ next_offset /*! ) */ + ?, straight = straight + ? WHERE id = ?;

-- name: owners
-- Whose these queues are, as in `offsets`.
SELECT id, CASE group_id WHEN 0 THEN topic_id ELSE -group_id END AS owner FROM queue /*! FORCE INDEX (PRIMARY) */
WHERE id IN (?*);

-- name: ends
-- The ends of the queues: every offset below is committed.
SELECT id, next_offset FROM queue WHERE id IN (?*);

-- name: streamed
-- How much each topic has in its own queues, ever, and how much of it never waited.
SELECT topic_id, SUM(next_offset - holes), SUM(straight) FROM queue WHERE topic_id IN (?*) AND group_id = 0 GROUP BY topic_id;

-- name: seal
-- The queue is without a hole up to here; so many of these offsets are of messages that never waited, so many tombstones.
UPDATE queue SET next_offset = ?, straight = straight + ?, holes = holes + ? WHERE id = ?;

-- name: overrun
-- Queues that have more in the stream than they are known to be without a hole.
SELECT q.id FROM queue q WHERE EXISTS
  (SELECT 1 FROM message m WHERE m.queue_id = q.id AND m.`offset` >= q.next_offset);

-- name: whose
-- The topic of a queue, its number and how far it is without a hole.
SELECT t.name, q.number, q.next_offset FROM queue q JOIN topic t ON t.id = q.topic_id WHERE q.id = ?;

-- name: remove
-- Queues that are no more, locked before.
DELETE /*+ INDEX(queue PRIMARY) */ FROM queue WHERE id IN (?*);

-- name: groups
-- The groups whose retry queues these are; 0 for a topic's own.
SELECT id, group_id FROM queue /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*);

-- name: all
-- The sequences of all queues, with the lowest offset that may still exist.
SELECT q.id, q.topic_id, q.group_id, q.number, q.next_offset, q.straight, q.holes, COALESCE(c.floor, 0) AS floor
FROM queue q LEFT JOIN cleaned c ON c.queue_id = q.id ORDER BY q.id;
