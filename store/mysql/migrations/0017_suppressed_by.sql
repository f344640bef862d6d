-- Which guard has suppressed a message: once it is ended nothing else tells.
-- beside: 6

ALTER TABLE cancelled ADD COLUMN guard VARBINARY(64) NULL COMMENT 'whose no ended it; NULL: nobody''s, or a server of before wrote it';
