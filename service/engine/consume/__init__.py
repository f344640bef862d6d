"""Consumer groups and readers: claiming, settling, reading, and clients that come and go."""
