"""State in memory: what this node knows, and who waits for what. It is passive and calls no part of the engine."""
