"""The embedded store: one writer thread with one connection, readers on their own."""
