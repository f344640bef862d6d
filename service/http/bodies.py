"""What the head of a request says of its body, before any of it is read."""

from starlette.types import Scope


def has_body(scope: Scope) -> bool:
    """Whether a body may come: in HTTP/1 only where the head says so."""
    if scope["type"] != "http":
        return False
    if not scope["http_version"].startswith("1"):
        return True
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )


def said_length(scope: Scope) -> int | None:
    """Content-Length, where there is one that can be read."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:15])  # as good as more
    return None
