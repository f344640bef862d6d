-- Forecast: how many messages fall due in each minute, kept as they come and go.
-- beside: 6

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

INSERT OR IGNORE INTO forecast_check (number, began_at) VALUES (1, 0);
