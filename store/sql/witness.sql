-- name: note
-- The session's row tells of the transaction that is under way. (A second time only where a transaction before this one
-- has made the row.)
INSERT INTO witness (session, run, noted_at) VALUES (?, ?, 0 /*! + UNIX_TIMESTAMP() */)
/*! ON DUPLICATE KEY UPDATE run = VALUES(run), noted_at = VALUES(noted_at) */;

-- name: last
-- The last transaction that a session has committed; this waits for the end of one that may still be.
SELECT run FROM witness /*! FORCE INDEX (PRIMARY) */ WHERE session = ? /*! FOR UPDATE */;

-- name: past
-- Sessions that have committed nothing for an hour: a scan of a small table.
SELECT session FROM witness WHERE noted_at < 0 /*! + UNIX_TIMESTAMP() - 3600 */ LIMIT ?;

-- name: remove
-- Sessions of which nobody will ask any more.
DELETE /*+ INDEX(witness PRIMARY) */ FROM witness WHERE session IN (?*);
