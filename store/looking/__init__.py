"""Looking: messages by id, key, state and time; nothing is changed."""
