"""When schedules fire: cron expressions, intervals, zones, misfires. Pure: times go in and come out."""
