"""Compares Tarry with similar systems: the same tasks for each, through its own client. Run it as a module."""
