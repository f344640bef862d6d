"""The calls that serve pages made by `tarry pipeline report`, from the folder that the setting `reports` names.

Nothing else in the folder is read. A page is made by another program, so it is served without scripts and forms. It
keeps its origin: without one the browser would send no session cookie, and the figures that the page links to would be
out of reach.
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
_FIGURES = "figures"
_FILES = (".json", ".parquet")
_LEADS = b'href="%s/'
_MOST = 100
"""The most reports in the list."""
_LARGEST = 64 << 20
"""The most bytes of a page or a figure that is served."""
_HEADERS = {
    "Content-Security-Policy": "sandbox allow-downloads allow-same-origin; default-src 'none';"
    " style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


async def list_reports(call: Call) -> Response:
    """List the reports, the latest first."""
    found = await trio.to_thread.run_sync(_pages, call.settings.reports)
    order = sorted(found.items(), key=lambda one: (-one[1][1], one[0]))[:_MOST]
    told = [answers.ReportAnswer(report=name, made_at=format_time(made_at)) for name, (_, made_at) in order]
    return answer(answers.ReportList(folder=bool(call.settings.reports), reports=told))


async def get_report(call: Call) -> Response:
    """Get the page of a report."""
    name = call.part("report")
    page = await trio.to_thread.run_sync(_read, call.settings.reports, name)
    if page is None:
        raise Problem("unknown-report", f"there is no report {name!r}; GET /v1/reports lists them")
    # The figures are beside the page in the folder, but below it in the URL.
    leads, below = _LEADS % _FIGURES.encode(), _LEADS % f"{name}/{_FIGURES}".encode()
    return Response(page.replace(leads, below), 200, "text/html; charset=utf-8", _HEADERS)


async def get_figure(call: Call) -> Response:
    """Download a figure of a report: JSON or Parquet."""
    report, figure = call.part("report"), call.part("figure")
    content = await trio.to_thread.run_sync(_read_figure, call.settings.reports, report, figure)
    if content is None:
        raise Problem("unknown-report", f"there is no figure {figure!r} of a report {report!r}")
    name = f'attachment; filename="{report}-{figure}"'
    headers = {"Content-Disposition": name, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
    return Response(content, 200, "application/octet-stream", headers)


def _pages(folder: str) -> dict[str, tuple[Path, int]]:
    """Each report's page by its name, with the time it was written in Unix milliseconds."""
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


def _read_figure(folder: str, report: str, figure: str) -> bytes | None:
    page = _pages(folder).get(report)
    if page is None or not figure.endswith(_FILES):
        return None
    path = page[0].parent / _FIGURES / figure
    if not path.is_file() or not path.resolve().is_relative_to(Path(folder).resolve()):
        return None
    return path.read_bytes() if path.stat().st_size <= _LARGEST else None
