-- Where fire times are missed in a row, the first tells how far that goes.
-- beside: 6

ALTER TABLE fire ADD COLUMN missed_until BIGINT NULL COMMENT 'those after it and before then had no turn; NULL: each had, or a server of before wrote it';
