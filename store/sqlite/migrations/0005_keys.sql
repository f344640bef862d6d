-- Keys by which clients get in, and which of them a client's name belongs to. The text of a key is nowhere.

CREATE TABLE access_key (
  name BLOB NOT NULL,
  digest BLOB NOT NULL,
  scopes BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER,
  PRIMARY KEY (name)
) WITHOUT ROWID;

CREATE TABLE client_owner (
  client BLOB NOT NULL,
  access_key BLOB NOT NULL,
  used_at INTEGER NOT NULL,
  PRIMARY KEY (client)
) WITHOUT ROWID;
CREATE INDEX idx_client_owner_used_at ON client_owner (used_at);
