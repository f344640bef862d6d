"""Recurring schedules: one message of each waits, and when it is due, the next one is made to wait."""
