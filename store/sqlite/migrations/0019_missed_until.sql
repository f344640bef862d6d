-- Where fire times are missed in a row, the first tells how far that goes.
-- beside: 6

ALTER TABLE fire ADD COLUMN missed_until INTEGER;
