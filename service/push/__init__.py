"""Push: claims the messages of a group and posts them to an endpoint, signed after Standard Webhooks 1.0."""
