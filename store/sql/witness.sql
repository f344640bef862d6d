-- name: note
-- The session's row tells of the transaction that is under way. (A second time only where a transaction before this one
-- has made the row.) Once it is closed it takes none: NULL is refused.
INSERT INTO witness (session, run, noted_at) VALUES (?, ?, 0 /*! + UNIX_TIMESTAMP() */)
/*! ON DUPLICATE KEY UPDATE run = IF(run > 0, VALUES(run), NULL), noted_at = VALUES(noted_at) */;

-- name: close
-- The session's row takes no transaction any more, and is below 0, unless the last that it has taken is this one, of
-- which the number is given below 0. This waits for the end of one that is under way.
INSERT INTO witness (session, run, noted_at) VALUES (?, ?, 0 /*! + UNIX_TIMESTAMP() */)
/*! ON DUPLICATE KEY UPDATE run = IF(run = -VALUES(run), run, VALUES(run)) */;

-- name: last
-- The last transaction that a session has committed, whose row is locked.
SELECT run FROM witness /*! FORCE INDEX (PRIMARY) */ WHERE session = ? /*! FOR UPDATE */;

-- name: past
-- Sessions that have committed nothing for an hour: a scan of a small table.
SELECT session FROM witness WHERE noted_at < 0 /*! + UNIX_TIMESTAMP() - 3600 */ LIMIT ?;

-- name: remove
-- Sessions of which nobody will ask any more.
DELETE /*+ INDEX(witness PRIMARY) */ FROM witness WHERE session IN (?*);
