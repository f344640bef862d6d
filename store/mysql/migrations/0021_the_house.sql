-- Every table. Names and keys are VARBINARY (order-7 is not Order-7), bodies are the received bytes, times are Unix
-- milliseconds, a state is a table, and there are no foreign keys. MySQL commits each statement by itself, so each is one
-- that may be run again after a crash.

CREATE TABLE IF NOT EXISTS topic (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  name VARBINARY(255) NOT NULL,
  kind TINYINT UNSIGNED NOT NULL COMMENT '0 cluster, 1 broadcast',
  ordered TINYINT UNSIGNED NOT NULL,
  retention BIGINT NULL COMMENT 'milliseconds; NULL: the default of the service',
  ladder VARBINARY(2048) NULL COMMENT 'milliseconds of each rung with commas; NULL: the default ladder',
  sequencer TINYINT UNSIGNED NOT NULL COMMENT 'of offsets: 0 the store, 1 Redis',
  created_at BIGINT NOT NULL,
  max_pending BIGINT NULL COMMENT 'messages that may wait for their time; NULL: no limit',
  max_rate INT NULL COMMENT 'messages accepted a second; NULL: no limit',
  release_rate INT NULL COMMENT 'messages that go into the stream a second; NULL: no limit',
  PRIMARY KEY (id),
  UNIQUE KEY udx_topic_name (name)
) ENGINE=InnoDB COMMENT='topics';

CREATE TABLE IF NOT EXISTS queue (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  topic_id INT UNSIGNED NOT NULL,
  group_id INT UNSIGNED NOT NULL COMMENT '0: the topic''s own; else the retry queue of that group',
  number INT UNSIGNED NOT NULL,
  next_offset BIGINT NOT NULL COMMENT 'the sequence: drawn under this row''s lock, so commit order is offset order',
  straight BIGINT NOT NULL COMMENT 'how many of them were drawn for messages that never waited',
  holes BIGINT NOT NULL COMMENT 'how many of them are tombstones',
  PRIMARY KEY (id),
  UNIQUE KEY udx_queue_multi_topic (topic_id, group_id, number)
) ENGINE=InnoDB COMMENT='sequences of offsets';

CREATE TABLE IF NOT EXISTS message (
  queue_id INT UNSIGNED NOT NULL,
  `offset` BIGINT NOT NULL,
  id BIGINT NOT NULL,
  nonce BIGINT NOT NULL,
  `key` VARBINARY(255) NULL,
  ordering_key VARBINARY(255) NULL,
  tag VARBINARY(255) NULL,
  headers MEDIUMBLOB NULL,
  content_type VARBINARY(255) NULL COMMENT 'NULL: the body is JSON text',
  body MEDIUMBLOB NOT NULL,
  accepted_at BIGINT NOT NULL,
  deliver_at BIGINT NOT NULL,
  streamed_at BIGINT NOT NULL,
  expires_at BIGINT NULL COMMENT 'from then on it is not handed out; NULL: no end',
  PRIMARY KEY (queue_id, `offset`),
  UNIQUE KEY udx_message_id (id)
) ENGINE=InnoDB COMMENT='the stream';

-- One that was moved to another time lies in a shard apart, where no scan by the time in its id passes it: 200,000 moved
-- ahead cost each sweep of what is due 200,000 rows read.
CREATE TABLE IF NOT EXISTS delay (
  shard TINYINT UNSIGNED NOT NULL COMMENT 'the low 4 bits of the id; 16 more of one that was moved',
  id BIGINT NOT NULL,
  due BIGINT NOT NULL COMMENT 'when to promote; the millisecond in the id unless rescheduled',
  nonce BIGINT NOT NULL,
  topic_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  `key` VARBINARY(255) NULL,
  ordering_key VARBINARY(255) NULL,
  tag VARBINARY(255) NULL,
  headers MEDIUMBLOB NULL,
  content_type VARBINARY(255) NULL,
  body MEDIUMBLOB NOT NULL,
  accepted_at BIGINT NOT NULL,
  deliver_at BIGINT NOT NULL,
  uncounted TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '1: from an outbox, and in no tally until it leaves',
  special TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '1: of a schedule',
  guard VARBINARY(64) NULL COMMENT 'who is asked at its time whether it is sent; NULL: nobody',
  expires_at BIGINT NULL COMMENT 'from then on it is not handed out; NULL: no end',
  PRIMARY KEY (shard, id)
) ENGINE=InnoDB COMMENT='messages that wait for their time';

CREATE TABLE IF NOT EXISTS moved (
  shard TINYINT UNSIGNED NOT NULL,
  due BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (shard, due, id)
) ENGINE=InnoDB COMMENT='where the due scan finds rescheduled messages';

CREATE TABLE IF NOT EXISTS cancelled (
  shard TINYINT UNSIGNED NOT NULL,
  id BIGINT NOT NULL,
  nonce BIGINT NOT NULL,
  topic_id INT UNSIGNED NOT NULL,
  `key` VARBINARY(255) NULL,
  accepted_at BIGINT NOT NULL,
  deliver_at BIGINT NOT NULL,
  cancelled_at BIGINT NOT NULL,
  reason TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '0 cancelled, 1 suppressed: its guard said no',
  guard VARBINARY(64) NULL COMMENT 'whose no ended it; NULL: nobody''s',
  PRIMARY KEY (shard, id)
) ENGINE=InnoDB COMMENT='messages cancelled in time';

CREATE TABLE IF NOT EXISTS outbox_cancel (
  shard TINYINT UNSIGNED NOT NULL,
  id BIGINT NOT NULL,
  topic_id INT UNSIGNED NOT NULL,
  scheduled TINYINT UNSIGNED NOT NULL COMMENT '1: its publish is in no tally either',
  replaced TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '1: by another of its timer',
  PRIMARY KEY (shard, id)
) ENGINE=InnoDB COMMENT='messages cancelled in a user''s transaction that no tally has heard of';

CREATE TABLE IF NOT EXISTS timer (
  topic_id INT UNSIGNED NOT NULL,
  `key` VARBINARY(255) NOT NULL,
  id BIGINT NOT NULL COMMENT 'its message: the one that waits, or the last that did',
  revision BIGINT NOT NULL COMMENT 'rises with each message, and never comes again',
  first_at BIGINT NOT NULL COMMENT 'when it was set first since it last fired',
  PRIMARY KEY (topic_id, `key`)
) ENGINE=InnoDB COMMENT='the message of each key that is unique in its topic';

CREATE TABLE IF NOT EXISTS label (
  topic_id INT UNSIGNED NOT NULL,
  `key` VARBINARY(255) NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (topic_id, `key`, id)
) ENGINE=InnoDB COMMENT='messages by their key, wherever they are';

CREATE TABLE IF NOT EXISTS idempotency (
  topic_id INT UNSIGNED NOT NULL,
  `key` VARBINARY(255) NOT NULL,
  fingerprint BINARY(32) NOT NULL,
  receipts MEDIUMBLOB NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (topic_id, `key`),
  KEY idx_idempotency_expires_at (expires_at)
) ENGINE=InnoDB COMMENT='requests answered before, with their answers';

-- Each has one message that waits, and the next is put there when its turn comes. An ordered topic's promotion looks for
-- the messages of its schedules whose fire time is past, and for no others: idx_schedule_topic_next.
CREATE TABLE IF NOT EXISTS schedule (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  name VARBINARY(255) NOT NULL,
  topic_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  spec MEDIUMBLOB NOT NULL COMMENT 'JSON, as it was sent',
  revision BIGINT NOT NULL COMMENT 'rises with each change, and never comes again',
  paused TINYINT UNSIGNED NOT NULL,
  made_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL COMMENT 'the last fire time whose turn has been; 0: none',
  last_id BIGINT NULL COMMENT 'the last message that it sent',
  next_at BIGINT NULL COMMENT 'the fire time that it waits for; NULL: none',
  next_id BIGINT NULL COMMENT 'its message, in delay; one with another id is of an older revision',
  PRIMARY KEY (id),
  UNIQUE KEY udx_schedule_name (name),
  UNIQUE KEY udx_schedule_next_id (next_id),
  KEY idx_schedule_next_at (next_at),
  KEY idx_schedule_topic_id (topic_id),
  KEY idx_schedule_topic_next (topic_id, next_at)
) ENGINE=InnoDB COMMENT='recurring schedules';

-- The archive looks for those of the last few hours alone: idx_fire_at.
CREATE TABLE IF NOT EXISTS fire (
  schedule_id INT UNSIGNED NOT NULL,
  fire_at BIGINT NOT NULL,
  message_id BIGINT NULL COMMENT 'NULL: there was none',
  outcome TINYINT UNSIGNED NOT NULL COMMENT '0 fired, 1 missed, 2 overlapped, 3 run, 4 backfilled, 5 cancelled',
  `at` BIGINT NOT NULL,
  missed_until BIGINT NULL COMMENT 'those after it and before then had no turn; NULL: each had',
  PRIMARY KEY (schedule_id, fire_at),
  KEY idx_fire_at (`at`)
) ENGINE=InnoDB COMMENT='what became of the fire times of schedules';

CREATE TABLE IF NOT EXISTS guard (
  name VARBINARY(64) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='guards that messages have named: a server that does not declare one says so';

CREATE TABLE IF NOT EXISTS forecast (
  topic_id BIGINT NOT NULL COMMENT '0: all topics together',
  hour BIGINT NOT NULL COMMENT 'hours since 1970',
  counts VARBINARY(240) NOT NULL COMMENT 'of its sixty minutes, four bytes each',
  PRIMARY KEY (topic_id, hour),
  KEY idx_forecast_hour (hour)
) ENGINE=InnoDB COMMENT='how many messages fall due in each minute that is ahead';

CREATE TABLE IF NOT EXISTS forecast_change (
  id BIGINT NOT NULL,
  topic_id BIGINT NOT NULL,
  changes MEDIUMBLOB NOT NULL COMMENT 'minutes since 1970, and by how many, four bytes each',
  PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='what transactions changed of the forecast, not added up yet';

CREATE TABLE IF NOT EXISTS forecast_check (
  number BIGINT NOT NULL,
  began_at BIGINT NOT NULL COMMENT 'when the last count of all rows began',
  PRIMARY KEY (number)
) ENGINE=InnoDB COMMENT='one row, locked by whoever changes the forecast';
INSERT IGNORE INTO forecast_check (number, began_at) VALUES (1, 0);

CREATE TABLE IF NOT EXISTS tally (
  topic_id INT UNSIGNED NOT NULL,
  tally_shard INT UNSIGNED NOT NULL COMMENT 'who counts: rows of one writer each, so that counting waits for nobody',
  scheduled BIGINT NOT NULL,
  cancelled BIGINT NOT NULL,
  replaced BIGINT NOT NULL DEFAULT 0,
  suppressed BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (topic_id, tally_shard)
) ENGINE=InnoDB COMMENT='counters of a topic beside those in queue';

-- Every server looks once a second for those that are paused: idx_consumer_group_paused.
CREATE TABLE IF NOT EXISTS consumer_group (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  topic_id INT UNSIGNED NOT NULL,
  name VARBINARY(255) NOT NULL,
  ladder VARBINARY(2048) NULL,
  on_exhausted TINYINT UNSIGNED NOT NULL COMMENT '0 dead letter, 1 block',
  concurrency INT UNSIGNED NULL,
  created_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL DEFAULT 0 COMMENT 'when somebody last asked for it, to some minutes',
  paused TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '1: its claims are answered empty',
  PRIMARY KEY (id),
  UNIQUE KEY udx_consumer_group_multi_name (topic_id, name),
  KEY idx_consumer_group_paused (paused)
) ENGINE=InnoDB COMMENT='consumer groups';

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

CREATE TABLE IF NOT EXISTS `cursor` (
  group_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  origin BIGINT NOT NULL COMMENT 'the position it began at',
  position BIGINT NOT NULL COMMENT 'the next offset to claim',
  next_claim BIGINT NOT NULL,
  next_delivery BIGINT NOT NULL,
  acked BIGINT NOT NULL,
  dead BIGINT NOT NULL,
  retried BIGINT NOT NULL,
  expired BIGINT NOT NULL,
  skipped BIGINT NOT NULL,
  parked BIGINT NOT NULL,
  sought BIGINT NOT NULL DEFAULT 0 COMMENT 'what seeks moved it by, and what they took out of claims',
  redriven BIGINT NOT NULL DEFAULT 0 COMMENT 'of a retry queue: put there by redrive or replay',
  cleared BIGINT NOT NULL DEFAULT 0 COMMENT 'dead letters redriven, purged or replaced by a newer one',
  PRIMARY KEY (group_id, queue_id)
) ENGINE=InnoDB COMMENT='how far a group is in a queue';

CREATE TABLE IF NOT EXISTS seek (
  group_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  number BIGINT NOT NULL COMMENT 'drawn as those of delivery are',
  sought_at BIGINT NOT NULL,
  position_before BIGINT NOT NULL,
  position_after BIGINT NOT NULL,
  released BIGINT NOT NULL COMMENT 'open messages of the claims that it closed',
  PRIMARY KEY (group_id, queue_id, number)
) ENGINE=InnoDB COMMENT='seeks, entries of the delivery log';

CREATE TABLE IF NOT EXISTS replay (
  group_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  request BINARY(32) NOT NULL COMMENT 'SHA-256 of what was asked for, or of a name: asked again, it goes on',
  position BIGINT NOT NULL COMMENT 'the next offset to replay',
  until BIGINT NOT NULL,
  PRIMARY KEY (group_id, queue_id)
) ENGINE=InnoDB COMMENT='replays under way';

CREATE TABLE IF NOT EXISTS claim (
  group_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  number BIGINT NOT NULL,
  token BIGINT NOT NULL,
  client VARBINARY(255) NOT NULL,
  `first` BIGINT NOT NULL,
  size INT UNSIGNED NOT NULL,
  claimed_at BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  outcome VARBINARY(1000) NOT NULL COMMENT 'a byte per message: store.records.Outcome',
  settled_at VARBINARY(8000) NOT NULL COMMENT 'per message 8 bytes, big-endian, 0 while open',
  PRIMARY KEY (group_id, queue_id, number),
  KEY idx_claim_lease_until (lease_until)
) ENGINE=InnoDB COMMENT='ranges in the hands of clients';

CREATE TABLE IF NOT EXISTS delivery (
  group_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  number BIGINT NOT NULL COMMENT 'drawn under the cursor''s lock when the claim ended',
  claim BIGINT NOT NULL,
  token BIGINT NOT NULL,
  client VARBINARY(255) NOT NULL,
  `first` BIGINT NOT NULL,
  size INT UNSIGNED NOT NULL,
  claimed_at BIGINT NOT NULL,
  ended_at BIGINT NOT NULL,
  outcome VARBINARY(1000) NOT NULL,
  settled_at VARBINARY(8000) NOT NULL,
  PRIMARY KEY (group_id, queue_id, number),
  KEY idx_delivery_multi_first (group_id, queue_id, `first`)
) ENGINE=InnoDB COMMENT='the delivery log: claims that ended';

CREATE TABLE IF NOT EXISTS retry (
  shard TINYINT UNSIGNED NOT NULL,
  id BIGINT NOT NULL COMMENT 'made like a message''s, of the millisecond it falls due',
  group_id INT UNSIGNED NOT NULL,
  return_queue_id INT UNSIGNED NOT NULL COMMENT 'the retry queue it comes back through',
  message_queue_id INT UNSIGNED NOT NULL,
  message_offset BIGINT NOT NULL,
  message_id BIGINT NOT NULL,
  attempt INT UNSIGNED NOT NULL COMMENT 'of the delivery to come',
  history MEDIUMBLOB NOT NULL COMMENT 'JSON, one entry per counted delivery',
  failed_at BIGINT NOT NULL,
  losses INT NOT NULL DEFAULT 0 COMMENT 'how often in a row its client died, or let its lease run out',
  PRIMARY KEY (shard, id),
  KEY idx_retry_multi_group (group_id, attempt),
  KEY idx_retry_message_id (message_id),
  KEY idx_retry_multi_source (message_queue_id, message_offset)
) ENGINE=InnoDB COMMENT='messages on a rung of a group''s ladder';

CREATE TABLE IF NOT EXISTS redelivery (
  queue_id INT UNSIGNED NOT NULL,
  `offset` BIGINT NOT NULL,
  retry_id BIGINT NOT NULL,
  message_queue_id INT UNSIGNED NOT NULL,
  message_offset BIGINT NOT NULL,
  message_id BIGINT NOT NULL,
  attempt INT UNSIGNED NOT NULL,
  history MEDIUMBLOB NOT NULL,
  streamed_at BIGINT NOT NULL,
  losses INT NOT NULL DEFAULT 0 COMMENT 'how often in a row its client died, or let its lease run out',
  PRIMARY KEY (queue_id, `offset`),
  KEY idx_redelivery_message_id (message_id)
) ENGINE=InnoDB COMMENT='the streams of the retry queues: where each message lies';

CREATE TABLE IF NOT EXISTS chain (
  group_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL COMMENT 'the topic''s own queue',
  ordering_key VARBINARY(255) NOT NULL COMMENT 'empty: messages without one',
  away MEDIUMBLOB NOT NULL COMMENT 'per member that is not parked its offset in 8 bytes, big-endian',
  PRIMARY KEY (group_id, queue_id, ordering_key)
) ENGINE=InnoDB COMMENT='ordering keys whose next messages wait for earlier ones to come back';

CREATE TABLE IF NOT EXISTS parked (
  group_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL COMMENT 'the topic''s own queue',
  ordering_key VARBINARY(255) NOT NULL,
  message_offset BIGINT NOT NULL,
  message_id BIGINT NOT NULL,
  attempt INT UNSIGNED NOT NULL,
  history MEDIUMBLOB NOT NULL,
  parked_at BIGINT NOT NULL,
  PRIMARY KEY (group_id, queue_id, ordering_key, message_offset),
  KEY idx_parked_message_id (message_id),
  KEY idx_parked_multi_source (queue_id, message_offset)
) ENGINE=InnoDB COMMENT='messages that wait behind one of their key, uncounted';

CREATE TABLE IF NOT EXISTS queue_owner (
  group_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  client VARBINARY(255) NOT NULL,
  epoch BIGINT NOT NULL COMMENT 'one more at each change of hands',
  owned_at BIGINT NOT NULL,
  PRIMARY KEY (group_id, queue_id)
) ENGINE=InnoDB COMMENT='the one client of a group that may claim from a queue of an ordered topic';

CREATE TABLE IF NOT EXISTS member (
  group_id BIGINT NOT NULL,
  client VARBINARY(255) NOT NULL,
  seen_at BIGINT NOT NULL COMMENT 'when it last asked, or waited: about, it is not written each time',
  PRIMARY KEY (group_id, client),
  KEY idx_member_client (client),
  KEY idx_member_seen_at (seen_at)
) ENGINE=InnoDB COMMENT='members of the groups of ordered topics, for as long as they ask';

CREATE TABLE IF NOT EXISTS dead (
  group_id INT UNSIGNED NOT NULL,
  id BIGINT NOT NULL,
  dead_at BIGINT NOT NULL,
  history MEDIUMBLOB NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  `offset` BIGINT NOT NULL,
  `key` VARBINARY(255) NULL,
  ordering_key VARBINARY(255) NULL,
  tag VARBINARY(255) NULL,
  headers MEDIUMBLOB NULL,
  content_type VARBINARY(255) NULL,
  body MEDIUMBLOB NOT NULL,
  accepted_at BIGINT NOT NULL,
  deliver_at BIGINT NOT NULL,
  expires_at BIGINT NULL COMMENT 'from then on it is not handed out; NULL: no end',
  PRIMARY KEY (group_id, id),
  KEY idx_dead_multi_dead_at (group_id, dead_at)
) ENGINE=InnoDB COMMENT='dead letters, each with a copy of its message';

CREATE TABLE IF NOT EXISTS reader (
  group_id INT UNSIGNED NOT NULL,
  client VARBINARY(255) NOT NULL,
  queue_id INT UNSIGNED NOT NULL,
  position BIGINT NOT NULL COMMENT 'the next offset to hand out',
  asked_at BIGINT NOT NULL COMMENT 'when the client last asked, to a minute',
  PRIMARY KEY (group_id, client, queue_id),
  KEY idx_reader_multi_asked_at (group_id, asked_at)
) ENGINE=InnoDB COMMENT='how far each client of a broadcast topic is';

CREATE TABLE IF NOT EXISTS client (
  name VARBINARY(255) NOT NULL,
  registered_at BIGINT NOT NULL,
  renewed_at BIGINT NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='clients whose liveness is watched';

CREATE TABLE IF NOT EXISTS client_owner (
  client VARBINARY(255) NOT NULL,
  access_key VARBINARY(64) NOT NULL COMMENT 'the name of the key that used it first',
  used_at BIGINT NOT NULL COMMENT 'about: it is not written each time',
  PRIMARY KEY (client),
  KEY idx_client_owner_used_at (used_at)
) ENGINE=InnoDB COMMENT='whose a client is, while it is used';

-- The text of a key is nowhere.
CREATE TABLE IF NOT EXISTS access_key (
  name VARBINARY(64) NOT NULL,
  digest VARBINARY(32) NOT NULL COMMENT 'SHA-256 of its text',
  scopes VARBINARY(8192) NOT NULL COMMENT 'as they are written, a space between them',
  created_at BIGINT NOT NULL,
  revoked_at BIGINT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='who may ask for what; a revoked key stays, so that its name is never given to another';

CREATE TABLE IF NOT EXISTS lease (
  name VARBINARY(255) NOT NULL,
  holder VARBINARY(255) NOT NULL,
  epoch BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='what one node or client holds at a time, with the epoch that fences its writes';

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

CREATE TABLE IF NOT EXISTS cleaned (
  queue_id INT UNSIGNED NOT NULL,
  floor BIGINT NOT NULL COMMENT 'the lowest offset that may still exist',
  PRIMARY KEY (queue_id)
) ENGINE=InnoDB COMMENT='how far retention has come; beside queue, whose rows publishers lock';

-- What an audit misses that is younger was taken by somebody else.
CREATE TABLE IF NOT EXISTS cleaned_until (
  what VARBINARY(16) NOT NULL COMMENT 'delivery, dead or cancelled',
  until BIGINT NOT NULL COMMENT 'of the youngest row that was taken, Unix milliseconds',
  PRIMARY KEY (what)
) ENGINE=InnoDB COMMENT='how far retention has come in what goes by time';

CREATE TABLE IF NOT EXISTS archived (
  group_id INT UNSIGNED NOT NULL COMMENT '0: messages; else the delivery log of this group',
  queue_id INT UNSIGNED NOT NULL,
  upto BIGINT NOT NULL COMMENT 'the first offset or delivery number not archived yet; where both ids are 0 a time, for dead and cancelled',
  PRIMARY KEY (queue_id, group_id)
) ENGINE=InnoDB COMMENT='what the archive has: nothing else goes while there is a row whose ids are both 0';

-- Each run of the archive looks for those that the lake still has: idx_erased_lake_at.
CREATE TABLE IF NOT EXISTS erased (
  id BIGINT NOT NULL COMMENT 'of the message, which need not be in the store any more',
  topic_id BIGINT NOT NULL COMMENT '0: the store did not know the message',
  erased_at BIGINT NOT NULL COMMENT 'the first time',
  lake_at BIGINT NULL COMMENT 'since when the lake has it no more; NULL: that is still to be done, if there is a lake',
  PRIMARY KEY (id),
  KEY idx_erased_lake_at (lake_at)
) ENGINE=InnoDB COMMENT='messages without their content, for good';

CREATE TABLE IF NOT EXISTS removed (
  topic_id INT UNSIGNED NOT NULL,
  group_id INT UNSIGNED NOT NULL COMMENT '0: of the topic itself',
  queue_id INT UNSIGNED NOT NULL COMMENT '0: of the topic or the group as a whole',
  removed_at BIGINT NOT NULL,
  PRIMARY KEY (topic_id, group_id, queue_id)
) ENGINE=InnoDB COMMENT='topics, groups, queues and cursors that are no more, until nothing of theirs is left; see store/cleaning/removal.py';

-- After a COMMIT without an answer it tells whether the transaction landed: store/mysql/witness.py.
CREATE TABLE IF NOT EXISTS witness (
  session BIGINT NOT NULL COMMENT 'a number that the session has drawn for itself',
  run BIGINT NOT NULL COMMENT 'its transactions, counted',
  noted_at BIGINT NOT NULL COMMENT 'Unix seconds, by the server',
  PRIMARY KEY (session)
) ENGINE=InnoDB COMMENT='the last transaction of each session that writes';
