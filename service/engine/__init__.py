"""The engine room: what is published, dispatched and consumed, and by which of the servers."""
