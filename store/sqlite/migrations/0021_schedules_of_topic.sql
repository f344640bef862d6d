-- An ordered topic's promotion looks for the messages of its schedules whose fire time is past, and for no others.
-- beside: 6

CREATE INDEX IF NOT EXISTS idx_schedule_topic_next ON schedule (topic_id, next_at);
