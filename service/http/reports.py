"""/v1/reports: pages that `tarry pipeline report` has made, in the folder that the setting `reports` names.

Nothing else of the folder is read. A page is another program's, so it is served without scripts, forms, or an origin.
"""

from pathlib import Path

import trio

from ..durations import format_time
from . import answers
from .asgi import Response
from .call import Call, answer
from .names import wrong_name
from .problems import Problem

_PAGE = "index.html"
_MOST = 100
"""Reports in the list."""
_LARGEST = 64 << 20
"""Bytes of a page."""
_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    " frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


async def list_reports(call: Call) -> Response:
    """The reports there are, the latest first."""
    found = await trio.to_thread.run_sync(_pages, call.settings.reports)
    order = sorted(found.items(), key=lambda one: (-one[1][1], one[0]))[:_MOST]
    told = [answers.ReportAnswer(report=name, made_at=format_time(made_at)) for name, (_, made_at) in order]
    return answer(answers.ReportList(folder=bool(call.settings.reports), reports=told))


async def get_report(call: Call) -> Response:
    """The page of a report."""
    name = call.part("report")
    page = await trio.to_thread.run_sync(_read, call.settings.reports, name)
    if page is None:
        raise Problem("unknown-report", f"there is no report {name!r}; GET /v1/reports lists them")
    return Response(page, 200, "text/html; charset=utf-8", _HEADERS)


def _pages(folder: str) -> dict[str, tuple[Path, int]]:
    """By name: the page, and when it was written, Unix milliseconds."""
    if not folder:
        return {}
    root, found = Path(folder).absolute(), dict[str, tuple[Path, int]]()
    try:
        inside = [root, *root.iterdir()]
    except OSError:
        return {}
    for path in inside:
        page = path / _PAGE
        if wrong_name(path.name) is None and page.is_file() and page.resolve().is_relative_to(root.resolve()):
            found[path.name] = page, page.stat().st_mtime_ns // 1_000_000
    return found


def _read(folder: str, name: str) -> bytes | None:
    page = _pages(folder).get(name)
    if page is None or page[0].stat().st_size > _LARGEST:
        return None
    return page[0].read_bytes()
