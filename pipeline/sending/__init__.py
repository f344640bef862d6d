"""Import and replay: rows of files, or messages of the past, go to a store."""
