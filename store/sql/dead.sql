-- name: add
-- A message to the dead letters, with a copy.
INSERT INTO dead (group_id, id, dead_at, history, queue_id, `offset`, {content})
SELECT ?, id, ?, ?, queue_id, `offset`, {content}
FROM message WHERE queue_id = ? AND `offset` = ?;

-- name: remove
-- A dead letter that is exhausted a second time gives way to the newer one.
DELETE FROM dead WHERE group_id = ? AND id = ?;

-- name: of_messages
-- In which of these groups messages are dead letters.
SELECT id, group_id, dead_at, history FROM dead /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*) AND group_id IN (?*);

-- name: weights
-- How many bytes dead letters are.
SELECT id, LENGTH(body) + COALESCE(LENGTH(headers), 0) + LENGTH(history)
FROM dead /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*) AND group_id IN (?*);

-- name: oldest
-- Dead letters of a group past their time, oldest first. (With the queue, so that no index alone has it all.)
SELECT id, queue_id, dead_at FROM dead /*! FORCE INDEX (idx_dead_multi_dead_at) */
WHERE group_id = ? AND dead_at <= ? ORDER BY dead_at LIMIT ?;

-- name: scan
-- A page of a group's dead letters, for a search.
SELECT id, dead_at, `key`, history FROM dead /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND id > ? ORDER BY id LIMIT ?;

-- name: whole
-- The dead letters of these ids.
SELECT id, group_id, dead_at, history, queue_id, `offset`, {content}
FROM dead /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND id IN (?*) ORDER BY id;

-- name: letters
-- Dead letters of some groups. A message that several of them have comes several times.
SELECT id, group_id, dead_at, history, queue_id, `offset`, {content}
FROM dead /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*) AND group_id IN (?*);

-- name: aged
-- The dead letters of a stretch of time, oldest first, for update; of those of its first millisecond what lies behind
-- an id.
SELECT id, queue_id, `offset`, dead_at, expires_at FROM dead /*! FORCE INDEX (idx_dead_multi_dead_at) */
WHERE group_id = ? AND dead_at >= ? AND dead_at < ? AND (dead_at > ? OR id > ?) ORDER BY dead_at, id LIMIT ? /*! FOR UPDATE */;

-- name: sought
-- As `aged`, with what letters are looked through for; whoever works on them.
SELECT id, dead_at, `key`, tag, history FROM dead /*! FORCE INDEX (idx_dead_multi_dead_at) */
WHERE group_id = ? AND dead_at >= ? AND dead_at < ? AND (dead_at > ? OR id > ?) ORDER BY dead_at, id LIMIT ?;

-- name: sought_named
-- The same of these ids.
SELECT id, dead_at, `key`, tag, history FROM dead /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND id IN (?*) ORDER BY id;

-- name: named
-- Those of these ids that are dead letters, for update.
SELECT id, queue_id, `offset`, dead_at, expires_at FROM dead /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND id IN (?*) ORDER BY id /*! FOR UPDATE */;

-- name: remove_all
-- Dead letters locked before.
DELETE /*+ INDEX(dead PRIMARY) */ FROM dead WHERE group_id = ? AND id IN (?*);

-- name: count
-- How many dead letters of a group are of a stretch of time.
SELECT COUNT(*) FROM dead /*! FORCE INDEX (idx_dead_multi_dead_at) */
WHERE group_id = ? AND dead_at >= ? AND dead_at < ?;

-- name: count_expired
-- How many of them would not be handed out again, since their time is past.
SELECT COUNT(*) FROM dead /*! FORCE INDEX (idx_dead_multi_dead_at) */
WHERE group_id = ? AND dead_at >= ? AND dead_at < ? AND expires_at <= ?;

-- name: count_astray
-- How many of them are of no such queue, or at no offset; without those past their time.
SELECT COUNT(*) FROM dead /*! FORCE INDEX (idx_dead_multi_dead_at) */
WHERE group_id = ? AND dead_at >= ? AND dead_at < ? AND (queue_id NOT IN (?*) OR `offset` < 0)
  AND (expires_at IS NULL OR expires_at > ?);

-- name: places
-- What a redrive of these looks at; whoever works on them.
SELECT id, queue_id, `offset`, dead_at, expires_at FROM dead /*! FORCE INDEX (PRIMARY) */ WHERE group_id = ? AND id IN (?*);

-- name: page
-- A page of a group's dead letters, to look through.
SELECT id, dead_at, queue_id FROM dead /*! FORCE INDEX (PRIMARY) */
WHERE group_id = ? AND id > ? ORDER BY id LIMIT ?;

-- name: of_key
-- The dead letters of a key in these groups: their rows are gone through, since no index has the key.
SELECT id FROM dead WHERE group_id IN (?*) AND `key` = ?;

-- name: briefly
-- The dead letters of these ids without their bodies.
SELECT id, group_id, dead_at, history, queue_id, `offset`, `key`, headers, accepted_at, deliver_at
FROM dead /*! FORCE INDEX (PRIMARY) */ WHERE id IN (?*) AND group_id IN (?*);

-- name: kept
-- A message's copies among the dead letters of these groups, without their bodies.
SELECT group_id, queue_id, content_type, history FROM dead /*! FORCE INDEX (PRIMARY) */
WHERE id IN (?*) AND group_id IN (?*);

-- name: erase
-- The content of a dead letter goes, and why its attempts failed.
UPDATE dead /*! FORCE INDEX (PRIMARY) */ SET headers = NULL, content_type = ?, body = X'', history = ? WHERE group_id = ? AND id = ?;
