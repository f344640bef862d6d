-- name: add
-- Ranges that go into clients' hands.
INSERT INTO claim (group_id, queue_id, number, token, client, `first`, size, claimed_at, lease_until, outcome,
  settled_at) VALUES ?;

-- name: lock
-- Claims of one cursor that no user's transaction holds, for update, in key order.
SELECT queue_id, number, token, client, `first`, size, claimed_at, lease_until, outcome, settled_at
FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND queue_id = ? AND number IN (?*) ORDER BY number /*! FOR UPDATE SKIP LOCKED */;

-- name: change
-- Some messages of a claim are settled, or it is leased anew.
UPDATE claim SET lease_until = ?, outcome = ?, settled_at = ? WHERE group_id = ? AND queue_id = ? AND number = ?;

-- name: remove
-- Claims that ended.
DELETE /*+ INDEX(claim PRIMARY) */ FROM claim WHERE group_id = ? AND queue_id = ? AND number IN (?*);

-- name: over
-- Claims whose lease has run out, oldest first.
SELECT group_id, queue_id, number, `first`, token, lease_until 
FROM claim /*! FORCE INDEX (idx_claim_lease_until) */ WHERE lease_until <= ? ORDER BY lease_until LIMIT ?;

-- name: find
-- Open claims by number.
SELECT group_id, queue_id, number, token, size FROM claim /*! FORCE INDEX (PRIMARY) */
WHERE (group_id, queue_id, number) WITHIN (?*);

-- name: outcomes
-- What has become of the messages of a group's open claims.
SELECT outcome FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ?;

-- name: of_groups
-- What has become of the messages of these groups' open claims.
SELECT group_id, outcome FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE group_id IN (?*);

-- name: extents
-- What is in the open claims of cursors.
SELECT group_id, queue_id, number, `first`, size FROM claim /*! FORCE INDEX (PRIMARY) */
WHERE (group_id, queue_id) WITHIN (?*);

-- name: of_spans
-- Open claims by number.
SELECT group_id, queue_id, client, `first`, size, claimed_at, outcome, settled_at
FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE (group_id, queue_id, number) WITHIN (?*);

-- name: of_group
-- All open claims of a group.
SELECT queue_id, number, token, client, `first`, size, claimed_at, lease_until, outcome, settled_at
FROM claim WHERE group_id = ?;

-- name: spans
-- What is in the open claims of a cursor.
SELECT `first`, size FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND queue_id = ?;
-- name: lock_or_add
-- Locks a claim; one that is not there is put in its place, of size 0 (see delay.lock_or_add).
INSERT INTO claim (group_id, queue_id, number, token, client, `first`, size, claimed_at, lease_until, outcome,
  settled_at) VALUES (?, ?, ?, 0, '', 0, 0, 0, 9223372036854775807, '', '') /*! ON DUPLICATE KEY UPDATE token = token */;

-- name: locked
-- The claim that `lock_or_add` has locked.
SELECT token, `first`, size, lease_until, outcome, settled_at FROM claim
WHERE group_id = ? AND queue_id = ? AND number = ? /*! FOR UPDATE */;

-- name: note
-- A user's transaction has acked of a claim that it holds.
UPDATE claim SET outcome = ?, settled_at = ? WHERE group_id = ? AND queue_id = ? AND number = ?;

-- name: remove_locked
-- A claim that was put in its place leaves.
DELETE FROM claim WHERE group_id = ? AND queue_id = ? AND number = ?;

-- name: lock_all
-- All open claims of some cursors of a group, for update, in key order.
SELECT queue_id, number, token, client, `first`, size, claimed_at, lease_until, outcome, settled_at
FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND queue_id IN (?*) ORDER BY queue_id, number /*! FOR UPDATE */;

-- name: clients_of_group
-- The clients of a group that have open claims, with the queue of each claim.
SELECT queue_id, client FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ?;

-- name: of_clients
-- The open claims of clients that have gone: a scan of what is open, once for each end.
SELECT group_id, queue_id, number, `first`, token FROM claim WHERE client IN (?*);

-- name: clients
-- Who holds open claims, by name from behind one on: a scan of what is open, for an operator's look.
SELECT DISTINCT client FROM claim WHERE client > ? ORDER BY client LIMIT ?;

-- name: counts_of_clients
-- How many open claims these clients hold of which queues: a scan of what is open, for an operator's look.
SELECT client, group_id, queue_id, COUNT(*) FROM claim WHERE client IN (?*) GROUP BY client, group_id, queue_id;

-- name: page
-- Open claims of one cursor, from a number on.
SELECT number, `first`, size, claimed_at, outcome FROM claim /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND queue_id = ? AND number >= ? ORDER BY number LIMIT ?;
