-- Messages whose body and headers an operator has erased, and whether the lake has heard of it. (There is an index, since
-- each run of the archive looks for those of which it has not.)
-- beside: 6

CREATE TABLE erased (
  id INTEGER PRIMARY KEY,
  topic_id INTEGER NOT NULL,
  erased_at INTEGER NOT NULL,
  lake_at INTEGER NULL
);
CREATE INDEX idx_erased_lake_at ON erased (lake_at);
