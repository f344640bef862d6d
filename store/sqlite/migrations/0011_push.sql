-- Push: the messages of a group are posted to an endpoint.
-- beside: 6

CREATE TABLE push (
  group_id INTEGER PRIMARY KEY,
  url BLOB NOT NULL,
  secrets BLOB NOT NULL,
  timeout INTEGER NOT NULL,
  max_in_flight INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  off_at INTEGER,
  broken_at INTEGER,
  because BLOB
);
