-- Push: the messages of a group are posted to an endpoint.
-- beside: 6

CREATE TABLE IF NOT EXISTS push (
  group_id BIGINT NOT NULL,
  url VARBINARY(2048) NOT NULL,
  secrets VARBINARY(1024) NOT NULL COMMENT 'with which posts are signed, a space between them',
  timeout BIGINT NOT NULL COMMENT 'of a post, milliseconds',
  max_in_flight INT UNSIGNED NOT NULL,
  changed_at BIGINT NOT NULL COMMENT 'when it was set; rises each time',
  off_at BIGINT NULL COMMENT 'the endpoint said that it is gone',
  broken_at BIGINT NULL COMMENT 'since when the endpoint is away',
  because VARBINARY(255) NULL COMMENT 'why it is off or broken',
  PRIMARY KEY (group_id)
) ENGINE=InnoDB COMMENT='endpoints to which the messages of groups are posted';
