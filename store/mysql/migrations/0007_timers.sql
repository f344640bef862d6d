-- Timers by key: one message of a topic that waits for each key, and what becomes of those that another replaces.
-- beside: 5

CREATE TABLE IF NOT EXISTS timer (
  topic_id INT UNSIGNED NOT NULL,
  `key` VARBINARY(255) NOT NULL,
  id BIGINT NOT NULL COMMENT 'its message: the one that waits, or the last that did',
  revision BIGINT NOT NULL COMMENT 'rises with each message, and never comes again',
  first_at BIGINT NOT NULL COMMENT 'when it was set first since it last fired',
  PRIMARY KEY (topic_id, `key`)
) ENGINE=InnoDB COMMENT='the message of each key that is unique in its topic';

ALTER TABLE tally ADD COLUMN replaced BIGINT NOT NULL DEFAULT 0;

ALTER TABLE outbox_cancel ADD COLUMN replaced TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '1: by another of its timer';
