-- Every table; the MySQL migration of the same number says what each is for.
-- Names and keys are BLOB (order-7 is not Order-7), bodies are the received bytes, times are Unix milliseconds.

CREATE TABLE topic (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name BLOB NOT NULL,
  kind INTEGER NOT NULL,
  ordered INTEGER NOT NULL,
  retention INTEGER NULL,
  ladder BLOB NULL,
  sequencer INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  max_pending INTEGER NULL,
  max_rate INTEGER NULL,
  release_rate INTEGER NULL
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
  expires_at INTEGER NULL,
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
  special INTEGER NOT NULL DEFAULT 0,
  guard BLOB NULL,
  expires_at INTEGER NULL,
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
  reason INTEGER NOT NULL DEFAULT 0,
  guard BLOB NULL,
  PRIMARY KEY (shard, id)
) WITHOUT ROWID;

CREATE TABLE outbox_cancel (
  shard INTEGER NOT NULL,
  id INTEGER NOT NULL,
  topic_id INTEGER NOT NULL,
  scheduled INTEGER NOT NULL,
  replaced INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (shard, id)
) WITHOUT ROWID;

CREATE TABLE timer (
  topic_id INTEGER NOT NULL,
  `key` BLOB NOT NULL,
  id INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  PRIMARY KEY (topic_id, `key`)
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

CREATE TABLE schedule (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name BLOB NOT NULL,
  topic_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  spec BLOB NOT NULL,
  revision INTEGER NOT NULL,
  paused INTEGER NOT NULL,
  made_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  last_id INTEGER NULL,
  next_at INTEGER NULL,
  next_id INTEGER NULL
);
CREATE UNIQUE INDEX udx_schedule_name ON schedule (name);
CREATE UNIQUE INDEX udx_schedule_next_id ON schedule (next_id);
CREATE INDEX idx_schedule_next_at ON schedule (next_at);
CREATE INDEX idx_schedule_topic_id ON schedule (topic_id);
CREATE INDEX idx_schedule_topic_next ON schedule (topic_id, next_at);

CREATE TABLE fire (
  schedule_id INTEGER NOT NULL,
  fire_at INTEGER NOT NULL,
  message_id INTEGER NULL,
  outcome INTEGER NOT NULL,
  `at` INTEGER NOT NULL,
  missed_until INTEGER NULL,
  PRIMARY KEY (schedule_id, fire_at)
) WITHOUT ROWID;
CREATE INDEX idx_fire_at ON fire (`at`);

CREATE TABLE guard (
  name BLOB PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE forecast (
  topic_id INTEGER NOT NULL,
  hour INTEGER NOT NULL,
  counts BLOB NOT NULL,
  PRIMARY KEY (topic_id, hour)
) WITHOUT ROWID;
CREATE INDEX idx_forecast_hour ON forecast (hour);

CREATE TABLE forecast_change (
  id INTEGER PRIMARY KEY,
  topic_id INTEGER NOT NULL,
  changes BLOB NOT NULL
);

CREATE TABLE forecast_check (
  number INTEGER PRIMARY KEY,
  began_at INTEGER NOT NULL
);
INSERT INTO forecast_check (number, began_at) VALUES (1, 0);

CREATE TABLE tally (
  topic_id INTEGER NOT NULL,
  tally_shard INTEGER NOT NULL,
  scheduled INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  replaced INTEGER NOT NULL DEFAULT 0,
  suppressed INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (topic_id, tally_shard)
) WITHOUT ROWID;

CREATE TABLE consumer_group (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  topic_id INTEGER NOT NULL,
  name BLOB NOT NULL,
  ladder BLOB NULL,
  on_exhausted INTEGER NOT NULL,
  concurrency INTEGER NULL,
  created_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL DEFAULT 0,
  paused INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX udx_consumer_group_multi_name ON consumer_group (topic_id, name);
CREATE INDEX idx_consumer_group_paused ON consumer_group (paused);

CREATE TABLE push (
  group_id INTEGER PRIMARY KEY,
  url BLOB NOT NULL,
  secrets BLOB NOT NULL,
  timeout INTEGER NOT NULL,
  max_in_flight INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  off_at INTEGER NULL,
  broken_at INTEGER NULL,
  because BLOB NULL
);

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
  losses INTEGER NOT NULL DEFAULT 0,
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
  losses INTEGER NOT NULL DEFAULT 0,
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

CREATE TABLE member (
  group_id INTEGER NOT NULL,
  client BLOB NOT NULL,
  seen_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, client)
) WITHOUT ROWID;
CREATE INDEX idx_member_client ON member (client);
CREATE INDEX idx_member_seen_at ON member (seen_at);

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
  expires_at INTEGER NULL,
  PRIMARY KEY (group_id, id)
) WITHOUT ROWID;
CREATE INDEX idx_dead_multi_dead_at ON dead (group_id, dead_at);

CREATE TABLE reader (
  group_id INTEGER NOT NULL,
  client BLOB NOT NULL,
  queue_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
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

CREATE TABLE client_owner (
  client BLOB NOT NULL,
  access_key BLOB NOT NULL,
  used_at INTEGER NOT NULL,
  PRIMARY KEY (client)
) WITHOUT ROWID;
CREATE INDEX idx_client_owner_used_at ON client_owner (used_at);

CREATE TABLE access_key (
  name BLOB NOT NULL,
  digest BLOB NOT NULL,
  scopes BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER NULL,
  PRIMARY KEY (name)
) WITHOUT ROWID;

CREATE TABLE lease (
  name BLOB NOT NULL,
  holder BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  PRIMARY KEY (name)
) WITHOUT ROWID;

-- An embedded store has one server, which knows servers and members by itself: the tables are here so that the schema is
-- one.
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

CREATE TABLE cleaned (
  queue_id INTEGER PRIMARY KEY,
  floor INTEGER NOT NULL
);

CREATE TABLE cleaned_until (
  what BLOB NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (what)
) WITHOUT ROWID;

CREATE TABLE archived (
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  upto INTEGER NOT NULL,
  PRIMARY KEY (queue_id, group_id)
) WITHOUT ROWID;

CREATE TABLE erased (
  id INTEGER PRIMARY KEY,
  topic_id INTEGER NOT NULL,
  erased_at INTEGER NOT NULL,
  lake_at INTEGER NULL
);
CREATE INDEX idx_erased_lake_at ON erased (lake_at);

CREATE TABLE removed (
  topic_id INTEGER NOT NULL,
  group_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  removed_at INTEGER NOT NULL,
  PRIMARY KEY (topic_id, group_id, queue_id)
) WITHOUT ROWID;

-- Here no commit is ever in doubt, so nobody writes to it.
CREATE TABLE witness (
  session INTEGER NOT NULL PRIMARY KEY,
  run INTEGER NOT NULL,
  noted_at INTEGER NOT NULL
);
