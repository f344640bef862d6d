"""A project of Django for the tests: two databases, a backend of tasks over each."""
