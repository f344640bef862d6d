"""A body comes at a pace, or not at all: who sends it byte by byte must not hold a connection and what it has sent."""

import trio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .bodies import has_body
from .problems import Problem

PACE = 64 << 10
"""Bytes that buy a body another second."""


class BodyTime:
    """Gives a body some time, and more for what has come; then `receive` raises 408."""

    def __init__(self, app: ASGIApp, allowed: float) -> None:
        self._app = app
        self._allowed = allowed
        """Seconds for a body of a few bytes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, self._timed(receive) if has_body(scope) else receive, send)

    def _timed(self, receive: Receive) -> Receive:
        until = trio.current_time() + self._allowed
        complete = False

        async def timed() -> Message:
            nonlocal until, complete
            if complete:
                return await receive()
            with trio.CancelScope(deadline=until):
                message = await receive()
                until += len(message.get("body", b"")) / PACE
                complete = not message.get("more_body", False)
                return message
            detail = f"the body did not come within {self._allowed:g} s and a second for each {PACE >> 10} KiB of it"
            raise Problem("too-slow", detail, executed=False, headers={"Connection": "close"})

        return timed
