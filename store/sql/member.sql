-- name: put
-- Clients that have asked for messages of a group of an ordered topic.
REPLACE INTO member (group_id, client, seen_at) VALUES ?;

-- name: of_groups
-- The clients that have asked for some of these groups since.
SELECT group_id, client FROM member /*! FORCE INDEX (PRIMARY) */ WHERE group_id IN (?*) AND seen_at > ?;

-- name: leave
-- Clients that are gone.
DELETE FROM member WHERE client IN (?*);

-- name: past
-- Some that have not asked for long.
SELECT group_id, client FROM member /*! FORCE INDEX (idx_member_seen_at) */ WHERE seen_at < ? LIMIT ?;

-- name: forget
-- One of them, unless it has asked since.
DELETE FROM member WHERE group_id = ? AND client = ? AND seen_at < ?;
