-- name: add
-- A message was cancelled in a user's transaction, which must not lock a tally.
INSERT INTO outbox_cancel (shard, id, topic_id, scheduled) VALUES ?;

-- name: add_replaced
-- A message was replaced by another of its timer in a user's transaction.
INSERT INTO outbox_cancel (shard, id, topic_id, scheduled, replaced) VALUES ?;

-- name: some
-- Whether there is something to count.
SELECT id FROM outbox_cancel LIMIT 1;

-- name: lock
-- Cancellations to be counted, a bounded batch, without those of some topics.
SELECT id, topic_id, scheduled, replaced FROM outbox_cancel WHERE topic_id NOT IN (?*)
ORDER BY shard, id LIMIT ? /*! FOR UPDATE SKIP LOCKED */;

-- name: remove
-- Cancellations that are counted.
DELETE /*+ INDEX(outbox_cancel PRIMARY) */ FROM outbox_cancel WHERE (shard, id) IN (?*);

-- name: sums
-- How many of each topic are to be counted, and how many of these were never counted as scheduled.
SELECT topic_id, SUM(scheduled) AS scheduled, SUM(1 - replaced) AS cancelled,
  SUM(replaced) AS replaced FROM outbox_cancel GROUP BY topic_id;
