-- Up to when retention has taken ended claims, dead letters and cancelled messages: what an audit misses that is
-- younger was taken by somebody else. Of a store that was cleaned before, nobody knows: all there is may have gone.

CREATE TABLE cleaned_until (
  what BLOB NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (what)
) WITHOUT ROWID;

INSERT INTO cleaned_until (what, until)
SELECT w.what, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
FROM (SELECT CAST('delivery' AS BLOB) AS what UNION ALL SELECT CAST('dead' AS BLOB) UNION ALL SELECT CAST('cancelled' AS BLOB)) w
WHERE EXISTS (SELECT 1 FROM topic);
