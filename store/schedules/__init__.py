"""Recurring schedules: one message of each waits, and puts the next in its place."""
