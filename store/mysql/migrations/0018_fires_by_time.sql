-- The archive looks for fires of schedules by the time when they had their end, and for the last few hours alone.
-- beside: 6

ALTER TABLE fire ADD INDEX idx_fire_at (`at`);
