"""The dashboard, an ASGI app around the API's app: serves the pages below /ui and passes on everything else.

It knows nothing of the node: each page calls the HTTP API in its visitor's name (`api`).
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

import structlog
import trio
from attrs import define, field

from ..http.asgi import BadAddress, Request, Response
from ..http.hosts import Hosts
from ..http.problems import Problem, problem_of
from ..http.reading import GONE, ClientGone
from ..http.requests import SignIn
from ..http.server.ports import App, Receive, Scope, Send
from . import rendering, static_files
from .api import Api, Refused, path_and_query
from .live import Live
from .page import Elsewhere, Page, Part, Said
from .routes import HOME, Found, find
from .visit import Visit, Visitor, read_form, visitor_of

_GUARD = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
    " object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HTML = "text/html; charset=utf-8"
_SIGN_IN = f"{HOME}/sign-in"
_BACK = re.compile(rf"{HOME}(?:[/?][\x21-\x7e]*)?")
"""Addresses to which signing in may lead on: those of the dashboard only."""

_LONGEST_BACK = 500
"""Characters of such an address, encoded, in the sign-in form, whose size is limited."""

_WRONG = {
    400: "Bad request",
    403: "Your key does not allow this",
    404: "Not found",
    500: "The server made a mistake",
    503: "Not available now",
}
"""Titles of error pages, by status."""

log = structlog.get_logger()

Count = Callable[[str, str, int, float], None]
"""Called with the route, the method and the status of an answer, and the seconds it took."""


@define(eq=False)
class Dashboard:
    """The ASGI app that the server serves: the dashboard and the API."""

    _app: App
    _names: tuple[str, ...]
    """Names by which the server may be called."""
    _count: Count
    _stopped: trio.Event = field(factory=trio.Event)
    """Set when the server stops, which ends streams."""
    live: Live = field(init=False)
    _hosts: Hosts = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._hosts = Hosts(self._names)
        self.live = Live(self._stopped)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        is_page = path == HOME or path.startswith(f"{HOME}/")
        if not is_page and not (path == "/" and scope["method"] in ("GET", "HEAD")):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        if not is_page and "text/html" not in (request.header(b"accept") or ""):
            await self._app(scope, receive, send)
            return
        began = trio.current_time()
        response, route = await self._answer(request)
        self._count(route, request.method, response.status, trio.current_time() - began)
        await response.send(send)

    async def _answer(self, request: Request) -> tuple[Response, str]:
        """The answer, and the route under which it is counted."""
        route = f"{HOME}/(unmatched)"
        try:
            self._hosts.check(request)
            segments = request.segments
            if request.path == "/":
                return _redirect(HOME), "/"
            if segments[1:2] == ["static"]:
                file = static_files.serve(request, "/".join(segments[2:])) if _reads(request) else None
                return file or await self._problem(request, Refused(404, {"detail": "there is no such file"})), (
                    f"{HOME}/static"
                )
            if request.path in (_SIGN_IN, f"{HOME}/sign-out"):
                route = request.path
                return await self._sign(request), route
            api = Api(self._app, request)
            if request.path == f"{HOME}/live":
                route = request.path
                return await self._live(request, api), route
            found = find(segments)
            if found is None:
                raise Refused(404, {"detail": "there is no such page"})
            route = f"{found.place.path}/{found.act}".rstrip("/")
            return await self._page(request, api, found), route
        except Refused as error:
            return await self._problem(request, error), route
        except Problem as problem:
            return problem.response(), route
        except BadAddress as error:
            facts = {"title": _WRONG[400], "detail": f"{error}", "status": 400}
            return _html(rendering.whole("problem_alone", facts), 400), route
        except ClientGone:
            return Response(status=GONE), route
        except Exception as error:
            if (told := problem_of(error)) is not None:
                return await self._problem(request, Refused(told.status, {"detail": told.body.detail})), route
            # Whatever went wrong, the visitor gets a page, and the details are in the log.
            log.exception("page_failed", route=route)
            fault = Refused(500, {"detail": "the server could not make this page; its log says why"})
            return await self._problem(request, fault), route

    async def _page(self, request: Request, api: Api, found: Found) -> Response:
        visitor = await visitor_of(api)
        if found.act:
            if request.method != "POST":
                raise Refused(
                    405, {"detail": "this address is for a button of the page: open the page and press the button"}
                )
            form = await read_form(request)
            visit = Visit(request, api, visitor, found.parts, form)
            done = await found.place.acts[found.act](visit)
            if isinstance(done, Elsewhere):
                return Response(b"", 200, headers=_GUARD | {"HX-Redirect": done.address})
            return _html(rendering.whole(done.template, done.facts)) if isinstance(done, Part) else _said(request, done)
        if found.place.show is None or not _reads(request):
            raise Refused(405, {"detail": "a page is opened with GET"})
        page = await found.place.show(Visit(request, api, visitor, found.parts, {}))
        if isinstance(page, Elsewhere):
            return _redirect(page.address)
        if "csv" in request.query:
            return _csv(page, request.query["csv"])
        return _html(rendering.whole(page.template, _facts(request, visitor, page)))

    async def _live(self, request: Request, api: Api) -> Response:
        """A stream of the live part of the page that the query names."""
        target, _, query = request.query.get("page", "").partition("?")
        seen = Request(
            dict(request.scope)
            | {
                "path": unquote(target),
                "raw_path": quote(target, safe="/%").encode(),
                "query_string": quote(query, safe="=&%+").encode(),
            },
            request.receive,
        )
        found = find(seen.segments)
        if found is None or found.act or found.place.show is None:
            raise Refused(404, {"detail": "there is no such page"})
        show = found.place.show
        await visitor_of(api)

        async def look() -> str:
            visitor = await visitor_of(api)
            page = await show(Visit(seen, api, visitor, found.parts, {}))
            if isinstance(page, Elsewhere):
                return ""
            return rendering.live_part(page.template, _facts(seen, visitor, page))

        return self.live.open(request, look)

    async def _sign(self, request: Request) -> Response:
        api = Api(self._app, request)
        if request.path != _SIGN_IN:
            if request.method != "POST":
                raise Refused(405, {"detail": "to sign out, press the button Sign out"})
            answer = await api.ask("DELETE", "/v1/session")
            return _with_cookies(_redirect(_SIGN_IN), answer.headers)
        if _reads(request):
            back = request.query.get("next", HOME)
            return self._sign_in_page(back if len(quote(back)) <= _LONGEST_BACK else HOME, "")
        form = await read_form(request, SignIn.limit)
        back = next(iter(form.get("next", ())), HOME)
        key = next(iter(form.get("key", ())), "").strip()
        if not key:
            return self._sign_in_page(back, "Enter a key.")
        try:
            answer = await api.ask("POST", "/v1/session", {"key": key})
        except Refused as error:
            if error.status not in (400, 401):
                raise
            return self._sign_in_page(back, "This key is unknown, or it was revoked.")
        return _with_cookies(_redirect(back if _BACK.fullmatch(back) else HOME), answer.headers)

    def _sign_in_page(self, back: str, wrong: str) -> Response:
        facts = {"title": "Sign in", "back": back, "wrong": wrong}
        return _html(rendering.whole("sign_in", facts), 401 if wrong else 200)

    async def _problem(self, request: Request, error: Refused) -> Response:
        by_button = request.header(b"hx-request") is not None
        if error.status == 401:
            here = path_and_query(quote(request.path), dict(request.query))
            back = here if _reads(request) and not by_button and request.path != f"{HOME}/live" else HOME
            address = path_and_query(_SIGN_IN, {"next": back})
            if by_button:
                return Response(b"", 200, headers=_GUARD | {"HX-Redirect": address})
            return _redirect(address) if request.path != f"{HOME}/live" else Response(b"", 401, headers=_GUARD)
        if by_button:
            response = _said(request, Said(error.detail, good=False), error.status)
            response.add_header("HX-Retarget", "#said")  # show it there, and leave the part of the page as it is
            response.add_header("HX-Reswap", "innerHTML")
            return response
        problem = {"detail": f"{error.detail[:1].upper()}{error.detail[1:]}", "status": error.status}
        title = _WRONG.get(error.status, "This did not work")
        try:
            visitor = await visitor_of(Api(self._app, request))
        except Exception:  # the error may be the very reason why this fails, too
            return _html(rendering.whole("problem_alone", {"title": title, **problem}), error.status)
        facts = _facts(request, visitor, Page("problem", title, problem))
        return _html(rendering.whole("problem", facts), error.status)


def _facts(request: Request, visitor: Visitor, page: Page) -> dict[str, Any]:
    """The variables that every template may use."""
    host = request.header(b"host") or "127.0.0.1:8277"
    query = {name: value for name, value in request.query.items() if name != "csv"}
    return {
        "title": page.title,
        "visitor": visitor,
        "here": request.path,
        "address": path_and_query(quote(request.path, safe="/%"), query),
        "query": query,
        "origin": f"{request.scope.get('scheme', 'http')}://{host}",
        **page.facts,
    }


def _reads(request: Request) -> bool:
    return request.method in ("GET", "HEAD")


def _said(request: Request, said: Said, status: int = 200) -> Response:
    facts = {"said": said, "path": request.path}
    return _html(rendering.whole("said", facts), status)


def _csv(page: Page, name: str) -> Response:
    for table in page.tables:
        if table.name == name:
            disposition = f'attachment; filename="tarry-{name}.csv"'
            return Response(table.csv(), 200, "text/csv; charset=utf-8", _GUARD | {"Content-Disposition": disposition})
    raise Refused(404, {"detail": "the page has no such table"})


def _html(content: bytes, status: int = 200) -> Response:
    return Response(content, status, _HTML, _GUARD)


def _redirect(address: str) -> Response:
    return Response(b"", 303, headers=_GUARD | {"Location": address})


def _with_cookies(response: Response, headers: list[tuple[bytes, bytes]]) -> Response:
    for name, value in headers:
        if name == b"set-cookie":
            response.add_header("Set-Cookie", value.decode("latin-1"))
    return response
