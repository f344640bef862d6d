"""The upkeep of a node: cleaning, metrics of the store, watches over clocks and writers, and logs."""
