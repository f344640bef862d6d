-- name: add
-- Ranges that go into clients' hands.
INSERT INTO claim (group_id, queue_id, number, token, client, `first`, size, claimed_at, lease_until, outcome,
  settled_at) VALUES ?;

-- name: lock
-- Claims of one cursor, for update, in key order.
SELECT number, token, client, `first`, size, claimed_at, lease_until, outcome, settled_at
FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND queue_id = ? AND number IN (?*) ORDER BY number /*! FOR UPDATE */;

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
-- One claim.
SELECT token, client, `first`, size, claimed_at, lease_until, outcome FROM claim
WHERE group_id = ? AND queue_id = ? AND number = ?;

-- name: outcomes
-- What has become of the messages of a group's open claims.
SELECT outcome FROM claim /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ?;

-- name: of_group
-- All open claims of a group.
SELECT queue_id, number, client, `first`, size, claimed_at, lease_until, outcome, settled_at FROM claim WHERE group_id = ?;
