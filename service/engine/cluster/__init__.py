"""The servers on one database: which of them live, and which shards of the wheel each holds."""
