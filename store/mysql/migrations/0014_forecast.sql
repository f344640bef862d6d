-- Forecast: how many messages fall due in each minute, kept as they come and go.
-- beside: 6

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
