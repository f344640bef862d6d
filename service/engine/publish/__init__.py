"""What producers ask for: publish, cancel, reschedule, timers by key, schedules."""
