"""How many bytes of bodies the server holds for requests that it has not answered: one limit for all of them."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import Overloaded
from .bodies import has_body, said_length


class Incoming:
    """Counts bodies as they come; `receive` raises 503 for the one that would be too much.

    What a request only says that it will send is held against the limit too, but not kept for it: else a few clients
    that send nothing would shut everybody out. One alone passes always; how large it may be is for its call to say.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not has_body(scope):
            await self._app(scope, receive, send)
            return
        own = 0

        async def counted() -> Message:
            nonlocal own
            message = await receive()
            size = len(message.get("body", b""))
            self._check(self.held - own, own + size)
            own += size
            self.held += size
            return message

        self._check(self.held, said_length(scope) or 0)
        try:
            await self._app(scope, counted, send)
        finally:
            self.held -= own

    def _check(self, others: int, own: int) -> None:
        if others and others + own > self._limit:
            raise Overloaded("too many bytes of requests are on their way at once; try again in a moment")
