-- How often in a row a message came back because its client died, or let its lease run out: so often it may do so
-- uncounted, where it was not begun, and who is handed it again takes care.
-- beside: 6

ALTER TABLE retry ADD COLUMN losses INT NOT NULL DEFAULT 0 COMMENT 'how often in a row its client died, or let its lease run out; 0 of rows that a server of before wrote';

ALTER TABLE redelivery ADD COLUMN losses INT NOT NULL DEFAULT 0 COMMENT 'how often in a row its client died, or let its lease run out; 0 of rows that a server of before wrote';
