"""The servers on one database: who is there, and who has which shards of the wheel."""
