-- An ordered topic's promotion looks for the messages of its schedules whose fire time is past, and for no others.
-- beside: 6

ALTER TABLE schedule ADD INDEX idx_schedule_topic_next (topic_id, next_at);
