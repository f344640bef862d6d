-- Which clients share the queues of a group of an ordered topic, at whichever server they ask.

CREATE TABLE IF NOT EXISTS member (
  group_id BIGINT NOT NULL,
  client VARBINARY(255) NOT NULL,
  seen_at BIGINT NOT NULL COMMENT 'when it last asked, or waited: about, it is not written each time',
  PRIMARY KEY (group_id, client),
  KEY idx_member_client (client),
  KEY idx_member_seen_at (seen_at)
) ENGINE=InnoDB COMMENT='members of the groups of ordered topics, for as long as they ask';
