-- The same tables as on MySQL. Here no commit is ever in doubt, so nobody writes to `witness`.

CREATE TABLE witness (
  session INTEGER NOT NULL PRIMARY KEY,
  run INTEGER NOT NULL,
  noted_at INTEGER NOT NULL
);

ALTER TABLE `cursor` DROP COLUMN turn;

ALTER TABLE reader DROP COLUMN turn;
