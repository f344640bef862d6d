-- Guards: messages of which it is asked at their time, in a table of the user's, whether they are to be sent.
-- A server that does not know of them would not ask: no message with a guard is taken while one is at work.
-- beside: 6

CREATE TABLE IF NOT EXISTS guard (
  name VARBINARY(64) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='guards that messages have named: a server that does not declare one says so';

ALTER TABLE delay ADD COLUMN guard VARBINARY(64) NULL COMMENT 'who is asked at its time whether it is sent; NULL: nobody';

ALTER TABLE cancelled ADD COLUMN reason TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '0 cancelled, 1 suppressed: its guard said no';

ALTER TABLE tally ADD COLUMN suppressed BIGINT NOT NULL DEFAULT 0;
