-- Every table of the main job; the MySQL migration of the same number says what each is for.
-- Names and keys are BLOB (order-7 is not Order-7), bodies are the received bytes, times are Unix milliseconds.

CREATE TABLE topic (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name BLOB NOT NULL,
  kind INTEGER NOT NULL,
  ordered INTEGER NOT NULL,
  retention INTEGER NULL,
  ladder BLOB NULL,
  sequencer INTEGER NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX udx_topic_name ON topic (name);

CREATE TABLE queue (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  topic_id INTEGER NOT NULL,
  group_id INTEGER NOT NULL,
  number INTEGER NOT NULL,
  next_offset INTEGER NOT NULL,
  straight INTEGER NOT NULL,
  holes INTEGER NOT NULL
);
CREATE UNIQUE INDEX udx_queue_multi_topic ON queue (topic_id, group_id, number);

CREATE TABLE message (
  queue_id INTEGER NOT NULL,
  `offset` INTEGER NOT NULL,
  id INTEGER NOT NULL,
  nonce INTEGER NOT NULL,
  `key` BLOB NULL,
  ordering_key BLOB NULL,
  tag BLOB NULL,
  headers BLOB NULL,
  content_type BLOB NULL,
  body BLOB NOT NULL,
  accepted_at INTEGER NOT NULL,
  deliver_at INTEGER NOT NULL,
  streamed_at INTEGER NOT NULL,
  PRIMARY KEY (queue_id, `offset`)
) WITHOUT ROWID;
CREATE UNIQUE INDEX udx_message_id ON message (id);

CREATE TABLE delay (
  shard INTEGER NOT NULL,
  id INTEGER NOT NULL,
  due INTEGER NOT NULL,
  nonce INTEGER NOT NULL,
  topic_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  `key` BLOB NULL,
  ordering_key BLOB NULL,
  tag BLOB NULL,
  headers BLOB NULL,
  content_type BLOB NULL,
  body BLOB NOT NULL,
  accepted_at INTEGER NOT NULL,
  deliver_at INTEGER NOT NULL,
  uncounted INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (shard, id)
) WITHOUT ROWID;

CREATE TABLE moved (
  shard INTEGER NOT NULL,
  due INTEGER NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (shard, due, id)
) WITHOUT ROWID;

CREATE TABLE cancelled (
  shard INTEGER NOT NULL,
  id INTEGER NOT NULL,
  nonce INTEGER NOT NULL,
  topic_id INTEGER NOT NULL,
  `key` BLOB NULL,
  accepted_at INTEGER NOT NULL,
  deliver_at INTEGER NOT NULL,
  cancelled_at INTEGER NOT NULL,
  PRIMARY KEY (shard, id)
) WITHOUT ROWID;

CREATE TABLE outbox_cancel (
  shard INTEGER NOT NULL,
  id INTEGER NOT NULL,
  topic_id INTEGER NOT NULL,
  scheduled INTEGER NOT NULL,
  PRIMARY KEY (shard, id)
) WITHOUT ROWID;

CREATE TABLE label (
  topic_id INTEGER NOT NULL,
  `key` BLOB NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (topic_id, `key`, id)
) WITHOUT ROWID;

CREATE TABLE idempotency (
  topic_id INTEGER NOT NULL,
  `key` BLOB NOT NULL,
  fingerprint BLOB NOT NULL,
  receipts BLOB NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (topic_id, `key`)
) WITHOUT ROWID;
CREATE INDEX idx_idempotency_expires_at ON idempotency (expires_at);

CREATE TABLE tally (
  topic_id INTEGER NOT NULL,
  maker INTEGER NOT NULL,
  scheduled INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  PRIMARY KEY (topic_id, maker)
) WITHOUT ROWID;

CREATE TABLE consumer_group (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  topic_id INTEGER NOT NULL,
  name BLOB NOT NULL,
  ladder BLOB NULL,
  on_exhausted INTEGER NOT NULL,
  concurrency INTEGER NULL,
  created_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX udx_consumer_group_multi_name ON consumer_group (topic_id, name);

CREATE TABLE `cursor` (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  origin INTEGER NOT NULL,
  position INTEGER NOT NULL,
  next_claim INTEGER NOT NULL,
  next_delivery INTEGER NOT NULL,
  acked INTEGER NOT NULL,
  dead INTEGER NOT NULL,
  retried INTEGER NOT NULL,
  expired INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  parked INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  sought INTEGER NOT NULL DEFAULT 0,
  redriven INTEGER NOT NULL DEFAULT 0,
  cleared INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (group_id, queue_id)
) WITHOUT ROWID;

CREATE TABLE seek (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  number INTEGER NOT NULL,
  sought_at INTEGER NOT NULL,
  position_before INTEGER NOT NULL,
  position_after INTEGER NOT NULL,
  released INTEGER NOT NULL,
  PRIMARY KEY (group_id, queue_id, number)
) WITHOUT ROWID;

CREATE TABLE replay (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  request BLOB NOT NULL,
  position INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (group_id, queue_id)
) WITHOUT ROWID;

CREATE TABLE claim (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  number INTEGER NOT NULL,
  token INTEGER NOT NULL,
  client BLOB NOT NULL,
  `first` INTEGER NOT NULL,
  size INTEGER NOT NULL,
  claimed_at INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  outcome BLOB NOT NULL,
  settled_at BLOB NOT NULL,
  PRIMARY KEY (group_id, queue_id, number)
) WITHOUT ROWID;
CREATE INDEX idx_claim_lease_until ON claim (lease_until);

CREATE TABLE delivery (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  number INTEGER NOT NULL,
  claim INTEGER NOT NULL,
  token INTEGER NOT NULL,
  client BLOB NOT NULL,
  `first` INTEGER NOT NULL,
  size INTEGER NOT NULL,
  claimed_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  outcome BLOB NOT NULL,
  settled_at BLOB NOT NULL,
  PRIMARY KEY (group_id, queue_id, number)
) WITHOUT ROWID;
CREATE INDEX idx_delivery_multi_first ON delivery (group_id, queue_id, `first`);

CREATE TABLE retry (
  shard INTEGER NOT NULL,
  id INTEGER NOT NULL,
  group_id INTEGER NOT NULL,
  return_queue_id INTEGER NOT NULL,
  message_queue_id INTEGER NOT NULL,
  message_offset INTEGER NOT NULL,
  message_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  history BLOB NOT NULL,
  failed_at INTEGER NOT NULL,
  PRIMARY KEY (shard, id)
) WITHOUT ROWID;
CREATE INDEX idx_retry_multi_group ON retry (group_id, attempt);
CREATE INDEX idx_retry_message_id ON retry (message_id);
CREATE INDEX idx_retry_multi_source ON retry (message_queue_id, message_offset);

CREATE TABLE redelivery (
  queue_id INTEGER NOT NULL,
  `offset` INTEGER NOT NULL,
  retry_id INTEGER NOT NULL,
  message_queue_id INTEGER NOT NULL,
  message_offset INTEGER NOT NULL,
  message_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  history BLOB NOT NULL,
  streamed_at INTEGER NOT NULL,
  PRIMARY KEY (queue_id, `offset`)
) WITHOUT ROWID;
CREATE INDEX idx_redelivery_message_id ON redelivery (message_id);

CREATE TABLE chain (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  ordering_key BLOB NOT NULL,
  away BLOB NOT NULL,
  PRIMARY KEY (group_id, queue_id, ordering_key)
) WITHOUT ROWID;

CREATE TABLE parked (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  ordering_key BLOB NOT NULL,
  message_offset INTEGER NOT NULL,
  message_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  history BLOB NOT NULL,
  parked_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, queue_id, ordering_key, message_offset)
) WITHOUT ROWID;
CREATE INDEX idx_parked_message_id ON parked (message_id);
CREATE INDEX idx_parked_multi_source ON parked (queue_id, message_offset);

CREATE TABLE queue_owner (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  client BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  owned_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, queue_id)
) WITHOUT ROWID;

CREATE TABLE dead (
  group_id INTEGER NOT NULL,
  id INTEGER NOT NULL,
  dead_at INTEGER NOT NULL,
  history BLOB NOT NULL,
  queue_id INTEGER NOT NULL,
  `offset` INTEGER NOT NULL,
  `key` BLOB NULL,
  ordering_key BLOB NULL,
  tag BLOB NULL,
  headers BLOB NULL,
  content_type BLOB NULL,
  body BLOB NOT NULL,
  accepted_at INTEGER NOT NULL,
  deliver_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, id)
) WITHOUT ROWID;
CREATE INDEX idx_dead_multi_dead_at ON dead (group_id, dead_at);

CREATE TABLE reader (
  group_id INTEGER NOT NULL,
  client BLOB NOT NULL,
  queue_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  asked_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, client, queue_id)
) WITHOUT ROWID;
CREATE INDEX idx_reader_multi_asked_at ON reader (group_id, asked_at);

CREATE TABLE client (
  name BLOB NOT NULL,
  registered_at INTEGER NOT NULL,
  renewed_at INTEGER NOT NULL,
  PRIMARY KEY (name)
) WITHOUT ROWID;

CREATE TABLE lease (
  name BLOB NOT NULL,
  holder BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  PRIMARY KEY (name)
) WITHOUT ROWID;

CREATE TABLE cleaned (
  queue_id INTEGER PRIMARY KEY,
  floor INTEGER NOT NULL
);

CREATE TABLE archived (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  upto INTEGER NOT NULL,
  PRIMARY KEY (queue_id, group_id)
) WITHOUT ROWID;

CREATE TABLE removed (
  topic_id INTEGER NOT NULL,
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  removed_at INTEGER NOT NULL,
  PRIMARY KEY (topic_id, group_id, queue_id)
) WITHOUT ROWID;
