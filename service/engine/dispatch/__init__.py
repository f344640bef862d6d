"""From the wheel to the stream: messages that are due are promoted, and those that cannot go wait apart."""
