"""Group commit, and patience with rows that others hold."""
