-- Which clients share the queues of a group of an ordered topic. The one server of an embedded store knows it by itself:
-- the table is here so that the schema is one.

CREATE TABLE member (
  group_id INTEGER NOT NULL,
  client BLOB NOT NULL,
  seen_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, client)
) WITHOUT ROWID;
CREATE INDEX idx_member_client ON member (client);
CREATE INDEX idx_member_seen_at ON member (seen_at);
