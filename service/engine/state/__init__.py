"""What is known here, and who waits for what: passive. It calls no part of the engine."""
