"""A file for each page: what it asks the API, and what its template is told."""
