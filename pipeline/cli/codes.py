"""The exit codes of `tarry pipeline`."""

FAILED = 1
"""It failed, or is not clean."""
USAGE = 2
NOT_FOUND = 3
TRY_AGAIN = 75
"""The store is away, or another archiver is at work."""
INTERRUPTED = 130
