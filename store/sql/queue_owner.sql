-- name: lock
-- Who owns the queues of an ordered topic in a group, for update.
SELECT queue_id, client, epoch FROM queue_owner /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? ORDER BY queue_id /*! FOR UPDATE */;

-- name: put
-- Queues that change hands.
REPLACE INTO queue_owner (group_id, queue_id, client, epoch, owned_at) VALUES ?;

-- name: of_group
-- Who owns the queues of an ordered topic in a group.
SELECT queue_id, client, epoch, owned_at FROM queue_owner WHERE group_id = ?;

-- name: of_clients
-- The queues of ordered topics that these clients own: a scan, for an operator's look.
SELECT client, group_id, queue_id FROM queue_owner WHERE client IN (?*);

-- name: forget
-- The owners of a group that is no more.
DELETE FROM queue_owner WHERE group_id = ?;
