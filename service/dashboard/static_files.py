"""Serves stylesheets, scripts and pictures, which do not change while the server runs."""

from functools import cache
from hashlib import sha256
from pathlib import Path

from ..http.asgi import Request, Response
from ..http.server.ports import Kept

_FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@cache
def _files() -> dict[str, tuple[Kept, str, str]]:
    """Content, media type and ETag of each file, by name. No other file is ever served."""
    found: dict[str, tuple[Kept, str, str]] = {}
    for path in _FOLDER.rglob("*"):
        if path.suffix in _TYPES:
            content = Kept(path.read_bytes())
            tag = f'"{sha256(content).hexdigest()[:16]}"'
            found[path.relative_to(_FOLDER).as_posix()] = content, _TYPES[path.suffix], tag
    return found


def serve(request: Request, name: str) -> Response | None:
    """Answers with the file, or 304 if the browser has it already; None if there is no such file."""
    known = _files().get(name)
    if known is None:
        return None
    content, media_type, tag = known
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.header(b"if-none-match") == tag:
        return Response(b"", 304, headers=headers)
    return Response(content, 200, media_type, headers)
