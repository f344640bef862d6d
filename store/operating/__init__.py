"""What an operator does to a group: seek, replay, redrive, purge."""
