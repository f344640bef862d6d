-- What each writing session has committed last: after a COMMIT without an answer it tells whether the transaction landed
-- (store/mysql/witness.py). The nonces of the last turn of a cursor and a reader, which were asked for that, go: a later
-- turn wrote over them.

CREATE TABLE IF NOT EXISTS witness (
  session BIGINT NOT NULL COMMENT 'a number that the session has drawn for itself',
  run BIGINT NOT NULL COMMENT 'its transactions, counted',
  noted_at BIGINT NOT NULL COMMENT 'Unix seconds, by the server',
  PRIMARY KEY (session)
) ENGINE=InnoDB COMMENT='the last transaction of each session that writes';

ALTER TABLE `cursor` DROP COLUMN turn;

ALTER TABLE reader DROP COLUMN turn;
