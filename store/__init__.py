"""Durable facts: ports, records and errors, with a MySQL and a SQLite backend behind the ports."""
