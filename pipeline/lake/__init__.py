"""The lake: Delta tables of what was, the archive that fills them, and their upkeep."""
