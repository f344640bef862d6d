"""The producer and the consumer for users."""
