-- Which guard has suppressed a message: once it is ended nothing else tells.
-- beside: 6

ALTER TABLE cancelled ADD COLUMN guard BLOB;
