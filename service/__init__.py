"""The trio service: the hand, promotion, claims, retries, HTTP and the command line."""
