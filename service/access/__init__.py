"""Access: keys and their scopes, sessions of browsers, and the owners of clients."""
