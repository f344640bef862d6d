"""Consumer groups at work: coordinators, members, what operators do to them."""
