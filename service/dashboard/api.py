"""The server's own HTTP API, asked in the server's process, as the visitor of a page.

A call goes through all that one from outside does: names of hosts, key or session, scopes, audit and counting. A page
can see and do nothing that its visitor could not by `curl`. What is asked in the process needs no connection.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode

import msgspec
from attrs import define, field, frozen

from ..http.asgi import Request
from ..http.server.ports import ARRIVED, CREDIT, App, Credit, Message

_CARRIED = {b"host", b"cookie", b"authorization", b"x-tarry-csrf", b"origin"}
"""Headers of the visitor that say where, who and from which page. When he came is not of it: a call begins when it is
made, and a stream of a page lasts."""
_OK = 300
_BODY = b'"body":'
_plain = msgspec.json.Decoder().decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Refused(Exception):
    """The API said no."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('detail') or problem.get('title') or ''}")
        self.status = status
        self.problem = problem

    @property
    def kind(self) -> str:
        """As in `/problems/{kind}`."""
        return str(self.problem.get("type", "")).removeprefix("/problems/")

    @property
    def detail(self) -> str:
        """A sentence for people."""
        return str(self.problem.get("detail") or self.problem.get("title") or f"the server answered {self.status}")


@frozen
class Answer:
    """Of a call."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def json(self) -> Any:
        """What it says. Bodies of messages are left as they are written, as `msgspec.Raw`: JSON has numbers that Python
        has not, such as `1e999`, or one of 5,000 digits."""
        return _bodies_unread(self.body) if _BODY in self.body else _plain(self.body)


@define(eq=False)
class Api:
    """For one visitor."""

    _app: App
    _request: Request
    """What the visitor asked for: of this the calls have the host, the key and the session."""

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """What `GET` of this path answers. Raises `Refused`."""
        return (await self.ask("GET", path, query=query)).json()

    async def try_get(self, path: str, query: Mapping[str, object] | None = None) -> Any | None:
        """The same; None where the visitor may not know it."""
        try:
            return await self.get(path, query)
        except Refused as error:
            if error.status == 403:
                return None
            raise

    async def ask(
        self, method: str, path: str, body: object = None, *, query: Mapping[str, object] | None = None
    ) -> Answer:
        """Any call; `body` becomes JSON, unless it is bytes. Raises `Refused`."""
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
    """As they stand in a request; what is None or empty is left out of the query. `path` is encoded already."""
    asked = {name: str(value) for name, value in (query or {}).items() if value not in (None, "")}
    return f"{path}?{urlencode(asked)}" if asked else path


def part(text: object) -> str:
    """A part of a path, encoded."""
    return quote(str(text), safe="")


def _problem(answer: Answer) -> Mapping[str, Any]:
    try:
        told = answer.json()
    except msgspec.DecodeError:
        return {}
    return told if isinstance(told, dict) else {}  # pyright: ignore[reportUnknownVariableType] - of JSON


@define(eq=False)
class _Credit:
    """Of one call: what it answers is read at once, and counts until then. A window that stays open asks for hours, and
    would hold all that it has ever been told."""

    _of: Credit
    """The visitor's."""
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
        """The answer is there, and is read."""
        if self._held:
            self.free(self._held)


@define(eq=False)
class _Exchange:
    """What the app receives and sends."""

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
