-- Up to when retention has taken ended claims, dead letters and cancelled messages: what an audit misses that is
-- younger was taken by somebody else. Of a store that was cleaned before, nobody knows: all there is may have gone.

CREATE TABLE IF NOT EXISTS cleaned_until (
  what VARBINARY(16) NOT NULL COMMENT 'delivery, dead or cancelled',
  until BIGINT NOT NULL COMMENT 'of the youngest row that was taken, Unix milliseconds',
  PRIMARY KEY (what)
) ENGINE=InnoDB COMMENT='how far retention has come in what goes by time';

INSERT IGNORE INTO cleaned_until (what, until)
SELECT w.what, CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000 AS SIGNED)
FROM (SELECT 'delivery' AS what UNION ALL SELECT 'dead' UNION ALL SELECT 'cancelled') w
WHERE EXISTS (SELECT 1 FROM topic);
