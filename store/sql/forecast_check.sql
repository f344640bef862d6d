-- name: lock
-- Whoever has it may change what is added up. When the last count of all rows began.
SELECT number, began_at FROM forecast_check WHERE number = 1 /*! FOR UPDATE */;

-- name: find
-- When the last count of all rows began, that is at its end.
SELECT began_at FROM forecast_check WHERE number = 1;

-- name: passed
-- A count of all rows is at its end.
UPDATE forecast_check SET began_at = ? WHERE number = 1 AND began_at < ?;
