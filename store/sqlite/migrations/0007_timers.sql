-- Timers by key: one message of a topic that waits for each key, and what becomes of those that another replaces.
-- beside: 5

CREATE TABLE timer (
  topic_id INTEGER NOT NULL,
  `key` BLOB NOT NULL,
  id INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  PRIMARY KEY (topic_id, `key`)
) WITHOUT ROWID;

ALTER TABLE tally ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;

ALTER TABLE outbox_cancel ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;
