"""What waits for its time, and what makes it due."""
