-- Keys by which clients get in, and which of them a client's name belongs to. The text of a key is nowhere.

CREATE TABLE IF NOT EXISTS access_key (
  name VARBINARY(64) NOT NULL,
  digest VARBINARY(32) NOT NULL COMMENT 'SHA-256 of its text',
  scopes VARBINARY(8192) NOT NULL COMMENT 'as they are written, a space between them',
  created_at BIGINT NOT NULL,
  revoked_at BIGINT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='who may ask for what; a revoked key stays, so that its name is never given to another';

CREATE TABLE IF NOT EXISTS client_owner (
  client VARBINARY(255) NOT NULL,
  access_key VARBINARY(64) NOT NULL COMMENT 'the name of the key that used it first',
  used_at BIGINT NOT NULL COMMENT 'about: it is not written each time',
  PRIMARY KEY (client),
  KEY idx_client_owner_used_at (used_at)
) ENGINE=InnoDB COMMENT='whose a client is, while it is used';
