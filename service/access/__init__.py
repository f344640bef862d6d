"""Who may do what: keys, their scopes, and what of them a server keeps in memory."""
