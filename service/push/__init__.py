"""Push: the messages of a group are claimed here and posted to an endpoint, signed after Standard Webhooks 1.0."""
