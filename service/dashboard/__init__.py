"""The dashboard: pages for people. It asks the public HTTP API, as its visitor, and nothing else of the server."""
