"""Consumer groups and readers: who claims, settles, reads and goes away."""
