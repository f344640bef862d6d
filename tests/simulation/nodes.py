"""A node in the test process, on simulated time: it can be stopped or killed and starts again, and its clock drifts."""

from random import Random

import trio
from attrs import define, field

from simulation.database import Backend, Database, Fates, Link
from tarry.bench.lean_http import RefusedError
from tarry.service.http.app import App
from tarry.service.http.server.ports import PRESENCE, Message, Presence, Scope
from tarry.service.lifecycle import Lifecycle
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.settings import Settings

_GRACE = 5.0
_CLIENT_TIMEOUT = 5_000
"""Milliseconds; longer than the longest lease, since the leases of a dead client end with it."""
_HEADERS = [(b"host", b"127.0.0.1:8277"), (b"content-type", b"application/json")]


@define(eq=False)
class Life:
    """One life of a node, from its start to its end."""

    lifecycle: Lifecycle
    app: App
    link: Link
    nursery: trio.Nursery
    """Runs the node and its requests, which end with it."""
    stopping: bool = False


@define(eq=False)
class Node:
    number: int
    database: Database
    random: Random
    fates: Fates
    drift: float
    """The drift of its clock: the fraction of each second that it gains."""
    life: Life | None = field(default=None, init=False)

    async def run(self) -> None:
        """Runs one life of the node, until it ends or is killed."""
        settings = Settings(dsn="mysql://tarry@127.0.0.1/tarry", node=f"n{self.number}", client_timeout=_CLIENT_TIMEOUT)
        link, metrics = Link(self.database, self.random, self.fates), Metrics()
        lifecycle = begin(Backend(link), settings, metrics, elapsed=self._elapsed)
        try:
            async with trio.open_nursery() as nursery:
                self.life = Life(lifecycle, App(lifecycle, settings, metrics), link, nursery)
                await lifecycle.run()
        finally:
            self.life = None

    async def stop(self) -> None:
        """Stops the node as SIGTERM does: it takes no more requests, finishes those it has, and hands its work over."""
        life = self.life
        if life is None or life.stopping:
            return
        life.stopping = True
        life.lifecycle.stop()
        for step in (life.lifecycle.drain, life.lifecycle.hand_over, life.lifecycle.leave):
            with trio.move_on_after(_GRACE):
                await step()
        life.nursery.cancel_scope.cancel()

    def kill(self) -> None:
        """Kills the node as SIGKILL does: nothing that it does from now on reaches the database."""
        if self.life is not None:
            self.life.link.ended = True
            self.life.nursery.cancel_scope.cancel()

    def _elapsed(self) -> int:
        return round(trio.current_time() * 1e9 * (1 + self.drift)) + self.number


@define(eq=False)
class Way:
    """A connection from a client to a node: HTTP without the bytes. It may break while an answer is on its way."""

    node: Node
    random: Random
    fates: Fates
    _life: Life | None = field(default=None, init=False)

    async def open(self) -> object:
        self._life = self.node.life
        if self._life is None or self._life.stopping:
            raise ConnectionRefusedError
        return self

    async def aclose(self) -> None:
        self._life = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Sends a request and returns the body of the answer. Raises `RefusedError` and `trio.BrokenResourceError`."""
        await self._rest()
        life = self._life
        if life is None or life is not self.node.life or life.stopping or self.random.random() < self.fates.refused:
            raise trio.BrokenResourceError
        exchange = _Exchange(method, path, body)
        life.nursery.start_soon(exchange.run, life.app)
        try:
            await exchange.over.wait()
        except trio.Cancelled:
            exchange.presence.leave()
            exchange.gone.set()
            raise
        await self._rest()
        if life.link.ended or not exchange.whole or self.random.random() < self.fates.lost_after:
            raise trio.BrokenResourceError
        if not 200 <= exchange.status < 300:
            raise RefusedError(b"HTTP/1.1 %d" % exchange.status, exchange.answer)
        return exchange.answer

    async def _rest(self) -> None:
        await trio.sleep(self.random.random() * (0.3 if self.random.random() < self.fates.slow else 0.002))


@define(eq=False)
class _Exchange:
    method: str
    path: str
    body: bytes
    over: trio.Event = field(factory=trio.Event, init=False)
    gone: trio.Event = field(factory=trio.Event, init=False)
    """Set when the client is gone."""
    presence: Presence = field(factory=Presence, init=False)
    status: int = field(default=0, init=False)
    answer: bytes = field(default=b"", init=False)
    whole: bool = field(default=False, init=False)
    _read: bool = field(default=False, init=False)

    async def run(self, app: App) -> None:
        path, _, query = self.path.partition("?")
        scope: Scope = {
            "type": "http",
            "method": self.method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [*_HEADERS, (b"content-length", b"%d" % len(self.body))],
            "client": ("127.0.0.1", 1),
            PRESENCE: self.presence,
        }
        try:
            await app(scope, self._receive, self._send)
        finally:
            self.over.set()

    async def _receive(self) -> Message:
        if not self._read:
            self._read = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.answer += message["body"]
            self.whole = not message.get("more_body")
