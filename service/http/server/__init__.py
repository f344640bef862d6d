"""An HTTP/1 server for ASGI apps, on httptools and trio; it knows nothing of messages and claims."""
