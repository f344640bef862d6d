"""The dashboard: web pages for people. It uses only the server's public HTTP API, with the visitor's key or session."""
