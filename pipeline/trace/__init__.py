"""The trace: all that store and lake know of a few messages, in the order in which it happened."""
