"""What changes by itself: a page's live part, sent anew as an event whenever it is another, looked at each second.

A stream is a request that is never done. It ends when the visitor leaves, when the server stops, and when the session
is over; and there are no more of them at once than `most`, however many connections there may be.
"""

from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from ..http.asgi import Request, Response, Stream
from ..http.server.ports import PRESENCE, Presence
from .api import Refused

EVERY = 1.0
"""Seconds."""
_QUIET = 15
"""Rounds without a change after which something is sent all the same, so that one that is gone is noticed."""
_LONGEST = 600
"""Rounds of a stream; a page comes again by itself. So a balancer's new server gets its share."""

Send = Callable[[bytes], Awaitable[None]]


@define(eq=False)
class Live:
    """All streams of this server."""

    _stopped: trio.Event
    """The server stops."""
    most: int = 200
    streams: int = field(default=0, init=False)

    def open(self, request: Request, look: Callable[[], Awaitable[str]]) -> Response:
        """A stream of what `look` says."""
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
    """As EventSource reads it."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()
