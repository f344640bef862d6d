"""The HTTP front door: a plain ASGI app that checks what comes in, asks the broker, and says what went wrong."""
