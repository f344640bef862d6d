-- Recurring schedules: each has one message that waits, and the next is put there when its turn comes.
-- A server that does not know of them hands that message out as any other; a newer one sees so, and goes on.
-- beside: 6

CREATE TABLE schedule (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name BLOB NOT NULL,
  topic_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  spec BLOB NOT NULL,
  revision INTEGER NOT NULL,
  paused INTEGER NOT NULL,
  made_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  last_id INTEGER NULL,
  next_at INTEGER NULL,
  next_id INTEGER NULL
);
CREATE UNIQUE INDEX udx_schedule_name ON schedule (name);
CREATE UNIQUE INDEX udx_schedule_next_id ON schedule (next_id);
CREATE INDEX idx_schedule_next_at ON schedule (next_at);
CREATE INDEX idx_schedule_topic_id ON schedule (topic_id);

CREATE TABLE fire (
  schedule_id INTEGER NOT NULL,
  fire_at INTEGER NOT NULL,
  message_id INTEGER NULL,
  outcome INTEGER NOT NULL,
  `at` INTEGER NOT NULL,
  PRIMARY KEY (schedule_id, fire_at)
) WITHOUT ROWID;

ALTER TABLE delay ADD COLUMN special INTEGER NOT NULL DEFAULT 0;
