-- Limits of a topic: how many of its messages may wait for their time, and how many are accepted a second.
-- beside: 6

ALTER TABLE topic ADD COLUMN max_pending INTEGER NULL;

ALTER TABLE topic ADD COLUMN max_rate INTEGER NULL;
