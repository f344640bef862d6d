"""Tarry beside what else does this: the same works, each peer through its own client. Run as a module."""
