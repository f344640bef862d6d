"""The HTTP app: a plain ASGI callable that any server can run on trio."""

from collections.abc import Awaitable, Callable
from functools import cache, partial
from urllib.parse import urlsplit

import msgspec
import trio
from attrs import define, field

from ..access.keyring import NOBODY
from ..lifecycle import Lifecycle
from ..metrics import Metrics
from ..settings import Settings
from . import reference, spans
from .access import NOTHING, Of, check, holder_of, is_of_a_page
from .asgi import Request, Response
from .audit import Audit
from .call import Call
from .hosts import Hosts
from .openapi import DOCS, PATH, STYLE, document
from .problems import Problem, problem_of, unexpected
from .reading import GONE, ClientGone, refuse_body
from .router import Router
from .routes import OPERATIONS, Operation
from .server.ports import ARRIVED, Kept, Receive, Scope, Send

_UNMATCHED = "(unmatched)"
_SMALL = 16 << 10
"""Bytes beyond which the answer to a GET counts against its client's credit while it is not yet taken."""
_SAFE = {"GET", "HEAD", "OPTIONS"}


@cache
def _document() -> Kept:
    return Kept(msgspec.json.encode(document()))  # made at the first request for it: it would be a twelfth of a start


async def _openapi(call: Call) -> Response:
    """This document."""
    return Response(_document(), media_type="application/json")


@define(eq=False)
class App:
    """Answers each request, even one that fails, and counts the answers."""

    _lifecycle: Lifecycle
    _settings: Settings
    _metrics: Metrics
    _exposition: Callable[[], Awaitable[bytes]] | None = None
    """Makes the text of /metrics; by default the metrics of this server alone."""
    in_flight: int = field(default=0, init=False)
    _hosts: Hosts = field(init=False)
    _audit: Audit = field(factory=Audit, init=False)
    router: Router[Operation] = field(factory=Router[Operation], init=False)

    def __attrs_post_init__(self) -> None:
        self._hosts = Hosts(self._settings.names)
        beside = (
            Operation(f"GET {PATH}", _openapi, "application/json", NOTHING, is_checked=False),
            Operation(f"GET {DOCS}", reference.docs, "text/html", NOTHING, is_checked=False),
            Operation(f"GET {STYLE}", reference.style, "text/css", NOTHING, is_checked=False),
        )
        for operation in (*OPERATIONS, *beside):
            self.router.add(operation.path, operation.method, operation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.in_flight += 1
        try:
            begun: float = scope.get(ARRIVED) or trio.current_time()
            with spans.serving(request) as span:
                response = await self._response(request)
                span.answered(request, response.status)
            took = trio.current_time() - begun
            self._metrics.http_request(request.route or _UNMATCHED, request.method, response.status, took)
            await response.send(send)
        finally:
            self.in_flight -= 1

    async def _response(self, request: Request) -> Response:
        try:
            self._hosts.check(request)
            operation = self._operation(request)
            need = operation.need
            if need.is_audited or (need.of is not Of.NOTHING and is_of_a_page(request)):
                return await self._audit.told(request, operation, partial(self._act, request, operation))
            return await self._act(request, operation)
        except ClientGone:
            return Response(status=GONE)  # nobody reads it, but it is counted
        except Exception as error:
            problem = problem_of(error) or unexpected(error, request.route)
            return problem.response()

    async def _act(self, request: Request, operation: Operation) -> Response:
        _refuse_other_sites(request)
        holder, need = NOBODY, operation.need
        if need.of is not Of.NOTHING:
            holder = await holder_of(request, self._lifecycle.node)  # before the store has answered, `node` raises
            request.key = holder.name
        exposition = self._exposition or self._own_metrics
        call = Call(request, self._lifecycle, self._settings, exposition, holder, self._metrics.activity)
        if operation.is_checked:
            call.check(operation.parameters)
        if need.of is not Of.NOTHING:
            check(need, holder, request)
        if not operation.takes_body:
            await refuse_body(request)
        if operation.may_answer_much:
            request.credit.check()
        response = await operation.handler(call)
        if operation.method == "GET" and response.size > _SMALL:  # an answer to a claim is sent all the same
            request.credit.hold(response.size)
        return response

    async def _own_metrics(self) -> bytes:
        return self._metrics.text()

    def _operation(self, request: Request) -> Operation:
        route, operations, parts = self.router.find(request.segments)
        operation = operations.get("GET" if request.method == "HEAD" else request.method)
        if operation is not None:
            request.route, request.parts = route, parts
            return operation
        if not operations:
            raise Problem("not-found", "there is no such path; /docs lists them")
        allowed = ", ".join(sorted({*operations, "HEAD"} if "GET" in operations else operations))
        detail = f"{request.method[:20]} is none of {allowed}"
        raise Problem("method-not-allowed", detail, headers={"Allow": allowed})


def _refuse_other_sites(request: Request) -> None:
    """Refuses writes from a page of another site: where no key is required it could write through its reader's
    browser."""
    origin = request.header(b"origin")
    if origin is None or request.method in _SAFE:
        return
    try:
        site = urlsplit(origin).netloc.lower()
    except ValueError:  # a malformed address, such as `http://[`
        site = ""
    if not site or site != (request.header(b"host") or "").lower():
        raise Problem("cross-origin", "a page of another site may not do this", executed=False)
