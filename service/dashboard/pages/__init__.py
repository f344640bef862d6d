"""A file for each page: the calls that it makes to the API, and the facts for its template."""
