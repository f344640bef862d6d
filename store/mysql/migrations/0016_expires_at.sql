-- A message may say past which time it is of no use: it is not handed out then, and counts as expired.
-- A server that does not know of it hands it out all the same; while one is at work nobody may say so.
-- beside: 6

ALTER TABLE delay ADD COLUMN expires_at BIGINT NULL COMMENT 'from then on it is not handed out; NULL: no end';

ALTER TABLE message ADD COLUMN expires_at BIGINT NULL COMMENT 'from then on it is not handed out; NULL: no end';

ALTER TABLE dead ADD COLUMN expires_at BIGINT NULL COMMENT 'from then on it is not handed out; NULL: no end';
