"""Live updates: renders a page's live part each second, and sends it as an event whenever it has changed.

A stream is a request that stays open. It ends when the visitor leaves, when the server stops, and when the session is
over. There are at most `most` streams at once, however many connections there may be.
"""

from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from ..http.asgi import Request, Response, Stream
from ..http.server.ports import PRESENCE, Presence
from .api import Refused

EVERY = 1.0
"""Seconds between two looks."""
_QUIET = 15
"""Rounds without a change after which a comment is sent, so that a broken connection is noticed."""
_LONGEST = 600
"""Rounds after which a stream ends; the page reconnects by itself. So a new server behind a balancer gets its share."""

Send = Callable[[bytes], Awaitable[None]]


@define(eq=False)
class Live:
    _stopped: trio.Event
    """Set when the server stops."""
    most: int = 200
    streams: int = field(default=0, init=False)

    def open(self, request: Request, look: Callable[[], Awaitable[str]]) -> Response:
        """Opens a stream of the texts that `look` returns, as events."""
        if self.streams >= self.most:
            return Response(b"", 503, headers={"Retry-After": "10"})
        presence: Presence = request.scope.get(PRESENCE) or Presence()

        async def make(send: Send) -> None:
            self.streams += 1
            try:
                await self._tell(presence, look, send)
            finally:
                self.streams -= 1

        stream = Stream(make, "text/event-stream; charset=utf-8")
        stream.add_header("Cache-Control", "no-store")
        stream.add_header("X-Accel-Buffering", "no")
        return stream

    async def _tell(self, presence: Presence, look: Callable[[], Awaitable[str]], send: Send) -> None:
        last, quiet = "", 0
        await send(b"retry: 2000\n\n")
        for _ in range(_LONGEST):
            try:
                now = await look()
            except Refused as error:
                await send(event("over" if error.status == 401 else "trouble", error.detail))
                if error.status == 401:
                    return
                now = last
            if now != last:
                last, quiet = now, 0
                await send(event("live", now))
            elif quiet >= _QUIET:
                quiet = 0
                await send(b":\n\n")
            quiet += 1
            with presence.waited_for(), trio.move_on_after(EVERY):
                await self._stopped.wait()
            if presence.gone or self._stopped.is_set():
                return


def event(name: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()
