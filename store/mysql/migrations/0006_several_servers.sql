-- Several servers on one database: who is at work, and which clients share the queues of a group of an ordered topic, at
-- whichever server they ask.
-- beside: 5

CREATE TABLE IF NOT EXISTS node (
  boot VARBINARY(32) NOT NULL COMMENT 'made anew at each start',
  name VARBINARY(64) NOT NULL COMMENT 'the setting `node`; two may have the same',
  slot INT UNSIGNED NOT NULL COMMENT 'the lowest that was free: what it counts in is its own',
  level INT UNSIGNED NOT NULL COMMENT 'the newest migration that it knows',
  started_at BIGINT NOT NULL,
  renewed_at BIGINT NOT NULL COMMENT 'by the clock of this server',
  facts VARBINARY(4096) NOT NULL COMMENT 'what it tells of itself',
  PRIMARY KEY (boot),
  UNIQUE KEY udx_node_slot (slot)
) ENGINE=InnoDB COMMENT='servers that are at work; one that has not renewed for long is dead, and any other removes it';

CREATE TABLE IF NOT EXISTS member (
  group_id BIGINT NOT NULL,
  client VARBINARY(255) NOT NULL,
  seen_at BIGINT NOT NULL COMMENT 'when it last asked, or waited: about, it is not written each time',
  PRIMARY KEY (group_id, client),
  KEY idx_member_client (client),
  KEY idx_member_seen_at (seen_at)
) ENGINE=InnoDB COMMENT='members of the groups of ordered topics, for as long as they ask';
