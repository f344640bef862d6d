-- Recurring schedules: each has one message that waits, and the next is put there when its turn comes.
-- A server that does not know of them hands that message out as any other; a newer one sees so, and goes on.
-- beside: 6

CREATE TABLE IF NOT EXISTS schedule (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  name VARBINARY(255) NOT NULL,
  topic_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  spec MEDIUMBLOB NOT NULL COMMENT 'JSON, as it was sent',
  revision BIGINT NOT NULL COMMENT 'rises with each change, and never comes again',
  paused TINYINT UNSIGNED NOT NULL,
  made_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL COMMENT 'the last fire time whose turn has been; 0: none',
  last_id BIGINT NULL COMMENT 'the last message that it sent',
  next_at BIGINT NULL COMMENT 'the fire time that it waits for; NULL: none',
  next_id BIGINT NULL COMMENT 'its message, in delay; one with another id is of an older revision',
  PRIMARY KEY (id),
  UNIQUE KEY udx_schedule_name (name),
  UNIQUE KEY udx_schedule_next_id (next_id),
  KEY idx_schedule_next_at (next_at),
  KEY idx_schedule_topic_id (topic_id)
) ENGINE=InnoDB COMMENT='recurring schedules';

CREATE TABLE IF NOT EXISTS fire (
  schedule_id INT UNSIGNED NOT NULL,
  fire_at BIGINT NOT NULL,
  message_id BIGINT NULL COMMENT 'NULL: there was none',
  outcome TINYINT UNSIGNED NOT NULL COMMENT '0 fired, 1 missed, 2 overlapped, 3 run, 4 backfilled, 5 cancelled',
  `at` BIGINT NOT NULL,
  PRIMARY KEY (schedule_id, fire_at)
) ENGINE=InnoDB COMMENT='what became of the fire times of schedules';

ALTER TABLE delay ADD COLUMN special TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '1: of a schedule';
