-- Guards: messages of which it is asked at their time, in a table of the user's, whether they are to be sent.
-- A server that does not know of them would not ask: no message with a guard is taken while one is at work.
-- beside: 6

CREATE TABLE guard (
  name BLOB PRIMARY KEY
) WITHOUT ROWID;

ALTER TABLE delay ADD COLUMN guard BLOB NULL;

ALTER TABLE cancelled ADD COLUMN reason INTEGER NOT NULL DEFAULT 0;

ALTER TABLE tally ADD COLUMN suppressed INTEGER NOT NULL DEFAULT 0;
