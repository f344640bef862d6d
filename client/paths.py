"""Names as segments of a path. Knows nothing of what they name."""

from urllib.parse import quote

from .errors import BadRequest


def part(name: str) -> str:
    """Raises `BadRequest` for a name that leads elsewhere: HTTP turns `groups/..` into the topic above."""
    if name in ("", ".", ".."):
        raise BadRequest(f"{name!r} cannot stand in an address, and is the name of nothing")
    return quote(name, safe="")
