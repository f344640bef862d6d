"""HTTP/1 from bytes to ASGI and back: a server on httptools over trio that knows nothing of messages and claims."""
