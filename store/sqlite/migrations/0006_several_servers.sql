-- Several servers on one database: who is at work, and which clients share the queues of a group of an ordered topic. An
-- embedded store has one server, which knows both by itself: the tables are here so that the schema is one.
-- beside: 5

CREATE TABLE node (
  boot BLOB NOT NULL,
  name BLOB NOT NULL,
  slot INTEGER NOT NULL,
  level INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  renewed_at INTEGER NOT NULL,
  facts BLOB NOT NULL,
  PRIMARY KEY (boot)
) WITHOUT ROWID;
CREATE UNIQUE INDEX udx_node_slot ON node (slot);

CREATE TABLE member (
  group_id INTEGER NOT NULL,
  client BLOB NOT NULL,
  seen_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, client)
) WITHOUT ROWID;
CREATE INDEX idx_member_client ON member (client);
CREATE INDEX idx_member_seen_at ON member (seen_at);
