"""Consumer groups: their turns, claims, ordering, clients."""
