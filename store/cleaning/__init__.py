"""Removal of rows: those whose retention is over, and those of removed topics and groups."""
