"""When schedules fire: cron expressions, intervals, time zones, misfires. Pure: the caller passes all times."""
