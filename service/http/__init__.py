"""The HTTP front door: a plain ASGI app that checks what comes in, asks the node, and says what went wrong."""
