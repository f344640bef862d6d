-- name: add
-- Messages that wait for their time.
INSERT INTO delay (shard, id, due, nonce, topic_id, queue_id, {content}) VALUES ?;

-- name: add_bare
-- Messages of which there is but the body: a fifth less to read for the server than with five times NULL.
INSERT INTO delay (shard, id, due, nonce, topic_id, queue_id, body, accepted_at, deliver_at) VALUES ?;

-- name: lock
-- The messages at these places that nobody else is working on, for update, in key order.
SELECT id, due, topic_id, queue_id, nonce, `key`, accepted_at, deliver_at, uncounted, expires_at, special, shard
FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*)
ORDER BY shard, id /*! FOR UPDATE SKIP LOCKED */;

-- name: lock_due
-- As `lock`, with what promotion wants to know.
SELECT id, due, topic_id, queue_id, uncounted, special, shard
FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*)
ORDER BY shard, id /*! FOR UPDATE SKIP LOCKED */;

-- name: remove
-- Messages locked before.
DELETE /*+ INDEX(delay PRIMARY) */ FROM delay WHERE (shard, id) AT (?*);

-- name: of_queues
-- What waits for some queues in stretches of time, one of each shard: messages, and those that were moved; and those of
-- schedules whose fire time is past, whenever. Those with a guard are not told.
SELECT id, due, queue_id, ordering_key, deliver_at, accepted_at, shard FROM delay /*! FORCE INDEX (PRIMARY) */
  WHERE (shard, id) WITHIN (?*) AND queue_id IN (?*) AND special <> 2
UNION ALL SELECT /*! STRAIGHT_JOIN */ d.id, d.due, d.queue_id, d.ordering_key, d.deliver_at, d.accepted_at, d.shard
FROM (SELECT shard + 16 AS apart, id, due FROM moved /*! FORCE INDEX (PRIMARY) */ WHERE (shard, due) WITHIN (?*)) m
JOIN delay d /*! FORCE INDEX (PRIMARY) */ ON d.shard = m.apart AND d.id = m.id AND d.due = m.due
WHERE d.queue_id IN (?*) AND d.special <> 2
UNION ALL SELECT /*! STRAIGHT_JOIN */ d.id, d.due, d.queue_id, d.ordering_key, d.deliver_at, d.accepted_at, d.shard
FROM (SELECT next_id & 15 AS shard, next_id FROM schedule /*! FORCE INDEX (idx_schedule_topic_next) */
  WHERE topic_id IN (?*) AND next_at < ?) s
JOIN delay d /*! FORCE INDEX (PRIMARY) */ ON d.shard = s.shard AND d.id = s.next_id
WHERE d.queue_id IN (?*);

-- name: find
-- The messages of these ids, whoever works on them.
SELECT id, due, topic_id, queue_id, {content}
FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*);

-- name: queues
-- To which queue each of these messages goes.
SELECT id, queue_id FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*);

-- name: unlocked
-- As `lock_due`, whoever works on them, and without a lock.
SELECT id, due, topic_id, queue_id, uncounted, special, shard
FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*);

-- name: topics
-- Of which topic each of these messages is.
SELECT id, topic_id FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*);

-- name: other_topics
-- What waits in stretches of the key and is of another topic than this.
SELECT id, topic_id FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) WITHIN (?*) AND topic_id <> ?;

-- name: first_topics
-- The topics of the first that wait in a stretch of a shard.
SELECT topic_id FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND id >= ? AND id < ? ORDER BY id LIMIT ?;

-- name: others_of_shard
-- What waits in a stretch of a shard and is of another topic than this.
SELECT id, topic_id FROM delay /*! FORCE INDEX (PRIMARY) */
WHERE shard = ? AND id >= ? AND id < ? AND topic_id <> ? ORDER BY id LIMIT ?;

-- name: times
-- When each of these messages is to be delivered.
SELECT id, deliver_at FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*);

-- name: used
-- The ids among these whose messages lie apart, or have left already: their keys are free. (With the nonce, so that no
-- index alone has it all: of an index that has, the servers read the whole when the table is small.)
SELECT id, nonce FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*)
UNION ALL SELECT id, nonce FROM cancelled /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) IN (?*)
UNION ALL SELECT id, nonce FROM message /*! FORCE INDEX (udx_message_id) */ WHERE id IN (?*);

-- name: move
-- A message gets another due time, and its row the place that goes with it; its id stays.
UPDATE delay SET shard = ?, due = ?, deliver_at = ? WHERE (shard, id) AT (?*);

-- name: due
-- The due scan: what waits in one shard in a stretch of time, by id. What was moved lies elsewhere.
SELECT id, due FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND id >= ? AND id < ? ORDER BY id LIMIT ?;

-- name: near
-- What waits in stretches of time, one of each shard and one statement for the sweep: messages (0), those that were moved,
-- which lie in shards of their own, and retries (1). (With a column more each, so that no index alone has it all.)
SELECT * FROM (SELECT id, due, 0 AS kind, topic_id AS other FROM delay /*! FORCE INDEX (PRIMARY) */
  WHERE (shard, id) WITHIN (?*) AND topic_id NOT IN (?*) LIMIT ?) some_messages
UNION ALL SELECT * FROM (SELECT id, due, 0, shard FROM moved /*! FORCE INDEX (PRIMARY) */
  WHERE (shard, due) WITHIN (?*) LIMIT ?) some_moved
UNION ALL SELECT * FROM (SELECT id, id >> 21, 1, group_id FROM retry /*! FORCE INDEX (PRIMARY) */
  WHERE (shard, id) WITHIN (?*) LIMIT ?) some_retries;

-- name: count
-- How many wait, for audits and tests: a scan of the table.
SELECT COUNT(*) FROM delay;

-- name: add_uncounted
-- Messages of an outbox: whoever takes them out of here counts them.
INSERT INTO delay (shard, id, due, nonce, topic_id, queue_id, {content}, uncounted) VALUES ?;

-- name: seen
-- The messages among these that wait, as far as this transaction sees.
SELECT shard, id, nonce FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*);

-- name: lock_or_add
-- Locks the row of a message; one that is not there is put in its place, of topic 0 and never due. A SELECT ... FOR UPDATE would at
-- REPEATABLE READ lock the gap where a missing row was, and with it everybody who wants to publish there.
INSERT INTO delay (shard, id, due, nonce, topic_id, queue_id, body, accepted_at, deliver_at)
VALUES (?, ?, 9223372036854775807, 0, 0, 0, '', 0, 0) /*! ON DUPLICATE KEY UPDATE nonce = nonce */;

-- name: locked
-- The row that `lock_or_add` has locked; of topic 0 when there was none.
SELECT id, due, topic_id, queue_id, nonce, `key`, accepted_at, deliver_at, uncounted, expires_at, special, shard
FROM delay WHERE shard = ? AND id = ? /*! FOR UPDATE */;

-- name: remove_locked
-- The row that `lock_or_add` has locked leaves.
DELETE FROM delay WHERE shard = ? AND id = ?;

-- name: scan
-- A page of one shard, to look through.
SELECT id, topic_id, deliver_at, 0 AS reason FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND id > ? ORDER BY id LIMIT ?;

-- name: upcoming
-- How many of a topic (0: of all) fall due in a stretch of time, without those that have been moved (`moved.upcoming` counts them).
-- Others' rows are read as well: ask for a stretch that `edge` bounds.
SELECT COUNT(*) FROM delay /*! FORCE INDEX (PRIMARY) */
WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND id >= ? AND id < ? AND ? IN (0, topic_id);

-- name: edge
-- The first message of a shard, from an id on, that lies behind so many others.
SELECT id, due FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND id >= ? AND id < ? ORDER BY id LIMIT 1 OFFSET ?;

-- name: uncounted
-- How many messages of outboxes wait in a shard, by topic: a scan of it.
SELECT topic_id, SUM(uncounted) AS uncounted FROM delay WHERE shard = ? GROUP BY topic_id;

-- name: briefly
-- The messages of these ids without their bodies.
SELECT id, topic_id, due, `key`, headers, accepted_at, deliver_at FROM delay /*! FORCE INDEX (PRIMARY) */
WHERE (shard, id) AT (?*);

-- name: add_special
-- Messages that promotion does more with than to move them; see `Due`.
INSERT INTO delay (shard, id, due, nonce, topic_id, queue_id, {content}, special, guard) VALUES ?;

-- name: guards
-- Which guards these messages have, locked before.
SELECT id, guard FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*);

-- name: guarded
-- What is to be known of these messages to ask their guard; whoever works on them.
SELECT id, due, guard, `key` FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE (shard, id) AT (?*);

-- name: guarded_in
-- Guards that messages of a page of one shard have, and where the page ends; with NULL for those without.
SELECT guard, MAX(id) AS last, COUNT(*) AS messages FROM
  (SELECT id, guard FROM delay /*! FORCE INDEX (PRIMARY) */ WHERE shard = ? AND id > ? ORDER BY id LIMIT ?) some_messages
GROUP BY guard;

-- name: make_plain
-- Nothing more is to be done with these messages, locked before, than to move them.
UPDATE delay SET special = 0 WHERE (shard, id) AT (?*);

-- name: anywhere
-- The messages of these ids, whichever shard they lie in: of the few that promotion does not find.
SELECT id, shard, due, topic_id, queue_id, special, guard IS NULL AS unguarded FROM delay /*! FORCE INDEX (PRIMARY) */
WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
  29, 30, 31) AND id IN (?*);

-- name: unpointed
-- Messages of a shard apart to which no pointer leads, so that no scan finds them: a walk through all of it.
SELECT d.id FROM delay d /*! FORCE INDEX (PRIMARY) */
LEFT JOIN moved m /*! FORCE INDEX (PRIMARY) */ ON m.shard = d.shard - 16 AND m.due = d.due AND m.id = d.id
WHERE d.shard = ? AND m.id IS NULL ORDER BY d.id LIMIT ?;
