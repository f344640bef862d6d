"""The trio service: the dispatcher, promotion, claims, retries, HTTP and the command line."""
