"""Topics and groups: making and changing them, removing them, and ranking them in lists."""
