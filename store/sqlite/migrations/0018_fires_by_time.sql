-- The archive looks for fires of schedules by the time when they had their end, and for the last few hours alone.
-- beside: 6

CREATE INDEX IF NOT EXISTS idx_fire_at ON fire (`at`);
