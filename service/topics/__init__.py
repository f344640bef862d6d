"""Topics by name, what each does, and their removal."""
