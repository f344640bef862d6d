-- Limits of a topic: how many of its messages may wait for their time, and how many are accepted a second.
-- beside: 6

ALTER TABLE topic ADD COLUMN max_pending BIGINT NULL COMMENT 'messages that may wait for their time; NULL: no limit',
  ADD COLUMN max_rate INT NULL COMMENT 'messages accepted a second; NULL: no limit';
