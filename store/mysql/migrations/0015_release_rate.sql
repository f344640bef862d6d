-- How many of a topic's messages a second go from waiting into the stream.
-- beside: 6

ALTER TABLE topic ADD COLUMN release_rate INT NULL COMMENT 'messages that go into the stream a second; NULL: no limit';
