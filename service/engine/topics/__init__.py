"""What is set of topics and groups, their removal, and their order in lists."""
