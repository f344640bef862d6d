"""Messages and retries that wait for their time: promotion, cancel, reschedule, timers by key, guards, the forecast."""
