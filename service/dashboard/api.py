"""Calls the server's own HTTP API within the process, in the name of a page's visitor.

A call passes all the checks of a call from outside: host names, key or session, scopes, audit and counting. So a page
can see and do nothing that its visitor could not by `curl`. Calls within the process need no connection.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode

import msgspec
from attrs import define, field, frozen

from ..http.asgi import Request
from ..http.server.ports import ARRIVED, CREDIT, App, Credit, Message

_CARRIED = {b"host", b"cookie", b"authorization", b"x-tarry-csrf", b"origin"}
"""Headers of the visitor that are passed on: they tell the host, the visitor and the page. The time of arrival is not
passed on: a call begins when it is made, and a page's stream may last long."""
_OK = 300
_BODY = b'"body":'
_plain = msgspec.json.Decoder().decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Refused(Exception):
    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('detail') or problem.get('title') or ''}")
        self.status = status
        self.problem = problem

    @property
    def kind(self) -> str:
        """The kind of the problem, as in `/problems/{kind}`."""
        return str(self.problem.get("type", "")).removeprefix("/problems/")

    @property
    def detail(self) -> str:
        return str(self.problem.get("detail") or self.problem.get("title") or f"the server answered {self.status}")


@frozen
class Answer:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def json(self) -> Any:
        """The decoded body. Bodies of messages stay undecoded, as `msgspec.Raw`: JSON has numbers that Python cannot
        represent or parse, such as `1e999`, or one of 5,000 digits."""
        return _bodies_unread(self.body) if _BODY in self.body else _plain(self.body)


@define(eq=False)
class Api:
    """The API for one visitor."""

    _app: App
    _request: Request
    """The visitor's request, from which calls take the host, the key and the session."""

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """The decoded answer to a GET of this path. Raises `Refused`."""
        return (await self.ask("GET", path, query=query)).json()

    async def try_get(self, path: str, query: Mapping[str, object] | None = None) -> Any | None:
        """As `get`, but None if the visitor may not read it."""
        try:
            return await self.get(path, query)
        except Refused as error:
            if error.status == 403:
                return None
            raise

    async def ask(
        self, method: str, path: str, body: object = None, *, query: Mapping[str, object] | None = None
    ) -> Answer:
        """Makes any call; `body` is encoded as JSON, unless it is bytes. Raises `Refused`."""
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        headers = [one for one in self._request.scope["headers"] if one[0] in _CARRIED]
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        target = path_and_query(path, query)
        raw, _, asked = target.partition("?")
        scope = {name: value for name, value in self._request.scope.items() if name != ARRIVED} | {
            "method": method,
            "path": unquote(path),
            "raw_path": raw.encode(),
            "query_string": asked.encode(),
            "headers": headers,
        }
        exchange, credit = _Exchange(content), _Credit(self._request.credit)
        try:
            await self._app(scope | {CREDIT: credit}, exchange.receive, exchange.send)
        finally:
            credit.end()
        answer = Answer(exchange.status, exchange.headers, b"".join(exchange.pieces))
        if answer.status >= _OK:
            raise Refused(answer.status, _problem(answer))
        return answer


def _bodies_unread(text: bytes | msgspec.Raw) -> Any:
    begin = bytes(memoryview(text)[:1])
    if begin == b"{":
        members = _members(text).items()
        return {
            name: raw if name == "body" else _plain(raw) if name == "headers" else _bodies_unread(raw)
            for name, raw in members
        }
    return [_bodies_unread(raw) for raw in _elements(text)] if begin == b"[" else _plain(text)


def path_and_query(path: str, query: Mapping[str, object] | None = None) -> str:
    """The target of a request; parameters that are None or empty are left out. `path` must be encoded already."""
    asked = {name: str(value) for name, value in (query or {}).items() if value not in (None, "")}
    return f"{path}?{urlencode(asked)}" if asked else path


def part(text: object) -> str:
    """Encodes a text as one segment of a path."""
    return quote(str(text), safe="")


def _problem(answer: Answer) -> Mapping[str, Any]:
    try:
        told = answer.json()
    except msgspec.DecodeError:
        return {}
    return told if isinstance(told, dict) else {}  # pyright: ignore[reportUnknownVariableType] - of JSON


@define(eq=False)
class _Credit:
    """The credit of one call: its answer counts only until it is read, which is at once. Otherwise a window that stays
    open for hours would be charged for all its answers."""

    _of: Credit
    """The visitor's credit."""
    _held: int = field(default=0, init=False)

    def know(self, client: str) -> None:
        self._of.know(client)

    def check(self) -> None:
        self._of.check()

    def hold(self, size: int) -> None:
        self._of.hold(size)
        self._held += size

    def free(self, size: int) -> None:
        self._of.free(size)
        self._held -= size

    def end(self) -> None:
        """Frees what the answer held, since it has been read."""
        if self._held:
            self.free(self._held)


@define(eq=False)
class _Exchange:
    """The ASGI messages of one call: gives the body to the app, and collects its answer."""

    _content: bytes
    _read: bool = field(default=False, init=False)
    status: int = field(default=0, init=False)
    headers: list[tuple[bytes, bytes]] = field(factory=list[tuple[bytes, bytes]], init=False)
    pieces: list[bytes] = field(factory=list[bytes], init=False)

    async def receive(self) -> Message:
        if self._read:
            return {"type": "http.disconnect"}
        self._read = True
        return {"type": "http.request", "body": self._content, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", ()))
        else:
            self.pieces.append(message.get("body", b""))
