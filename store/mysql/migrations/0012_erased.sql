-- Messages whose body and headers an operator has erased, and whether the lake has heard of it. (There is an index, since
-- each run of the archive looks for those of which it has not.)
-- beside: 6

CREATE TABLE IF NOT EXISTS erased (
  id BIGINT NOT NULL COMMENT 'of the message, which need not be in the store any more',
  topic_id BIGINT NOT NULL COMMENT '0: the store did not know the message',
  erased_at BIGINT NOT NULL COMMENT 'the first time',
  lake_at BIGINT NULL COMMENT 'since when the lake has it no more; NULL: that is still to be done, if there is a lake',
  PRIMARY KEY (id),
  KEY idx_erased_lake_at (lake_at)
) ENGINE=InnoDB COMMENT='messages without their content, for good';
