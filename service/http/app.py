"""Puts the app together: a plain ASGI callable that any server can run on trio."""

from collections import defaultdict
from typing import cast
from urllib.parse import urlsplit
from uuid import uuid4

import structlog
from attrs import define, field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, ExceptionHandler, Message, Receive, Scope, Send

from ..lifecycle import Lifecycle
from ..metrics import Metrics
from ..settings import Settings
from .body_time import BodyTime
from .call import Call, answer
from .hosts import Hosts
from .incoming import Incoming
from .openapi import PATH, document
from .problems import Problem, problem_of
from .reading import ClientGone
from .rest import Rest
from .routes import OPERATIONS, Operation

log = structlog.get_logger()

_ROUTE = "tarry.route"
_UNMATCHED = "(unmatched)"
_SAFE = {"GET", "HEAD", "OPTIONS"}
_GONE = 499


def make_app(lifecycle: Lifecycle, settings: Settings, metrics: Metrics) -> ASGIApp:
    """The app. It keeps nothing of its own."""

    async def openapi(call: Call) -> Response:
        return answer(document())  # made when somebody asks: it is a twelfth of a start

    operations: defaultdict[str, dict[str, Operation]] = defaultdict(dict)
    for operation in (*OPERATIONS, Operation("GET", PATH, openapi, "application/json")):
        operations[operation.path][operation.method] = operation

    def route(path: str) -> Route:
        async def endpoint(request: Request) -> Response:
            request.scope[_ROUTE] = path
            method = "GET" if request.method == "HEAD" else request.method
            return await _answered(Call(request, lifecycle, settings, metrics), operations[path][method])

        return Route(path, endpoint, methods=list(operations[path]))

    app = Starlette(
        routes=[route(path) for path in operations],
        exception_handlers={HTTPException: cast(ExceptionHandler, _unrouted)},
    )
    app.router.redirect_slashes = False
    bounded = BodyTime(Incoming(app, settings.max_incoming), settings.body_timeout / 1000)
    return Rest(Edge(Hosts(bounded, (settings.listen_host, *settings.hosts)), metrics))


async def _answered(call: Call, operation: Operation) -> Response:
    """The handler's answer, or the problem that came in its way."""
    try:
        _refuse_other_sites(call.request)
        if operation.waits_for_start:
            _ = call.node  # raises
        if operation.is_checked:
            call.check([parameter.name for parameter in operation.query])
        return await operation.handler(call)
    except ClientGone:
        return Response(status_code=_GONE)  # nobody reads it, but it is counted
    except Exception as error:
        problem = problem_of(error) or _unexpected(call.request.scope, error)
        return problem.response()


def _refuse_other_sites(request: Request) -> None:
    """There is no authentication yet, so a page of some other site must not write through its reader's browser."""
    origin = request.headers.get("origin")
    if origin is None or request.method in _SAFE:
        return
    try:
        site = urlsplit(origin).netloc.lower()
    except ValueError:  # an address that is none, as in `http://[`
        site = ""
    if not site or site != request.headers.get("host", "").lower():
        raise Problem("cross-origin", "a page of another site may not do this", executed=False)


def _unexpected(scope: Scope, error: Exception) -> Problem:
    request_id = uuid4().hex
    log.error("request_failed", request_id=request_id, route=scope.get(_ROUTE), exc_info=error)
    detail = f"something is wrong with the server; its log tells more under {request_id}"
    return Problem("internal", detail, request_id=request_id)


async def _unrouted(request: Request, error: HTTPException) -> Response:
    """What Starlette says no to: paths and methods."""
    if error.status_code == 405:
        allowed = dict(error.headers or {})
        detail = f"{request.method[:20]} is none of {allowed.get('Allow', '')}"
        return Problem("method-not-allowed", detail, headers=allowed).response()
    return Problem("not-found", "there is no such path; /openapi.json lists them").response()


@define
class Edge:
    """The outermost layer but for `Rest`: counts answers, and lets no exception out unanswered."""

    _app: ASGIApp
    _metrics: Metrics
    in_flight: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def counted_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self.in_flight += 1
        try:
            await self._app(scope, receive, counted_send)
        except Exception as error:
            if status:
                raise  # too late for another answer
            problem = problem_of(error) or _unexpected(scope, error)
            await problem.response()(scope, receive, counted_send)
        finally:
            self.in_flight -= 1
            if status:
                self._metrics.http_request(scope.get(_ROUTE, _UNMATCHED), scope["method"], status)
