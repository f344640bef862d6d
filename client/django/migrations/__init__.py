"""The table of tasks, as it came to be."""
