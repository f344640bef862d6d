"""The rest of a body whose request is answered before its end: a little is read and dropped, else the connection ends.

An answer says which: with `Connection: close` when the rest stays unread, since nothing else can follow it.
"""

import trio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .bodies import has_body, said_length

_LITTLE = 64 << 10
_SECONDS = 1.0


class Rest:
    """Sees to what is left of a body when its answer begins. Of HTTP/1: in HTTP/2 a stream of its own ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not has_body(scope) or not scope["http_version"].startswith("1"):
            await self._app(scope, receive, send)
            return
        said = said_length(scope)
        left = _LITTLE + 1 if said is None else said
        complete = False

        async def seen() -> Message:
            nonlocal left, complete
            message = await receive()
            left -= len(message.get("body", b""))
            complete = complete or not message.get("more_body", False)
            return message

        async def send_after_the_rest(message: Message) -> None:
            if message["type"] == "http.response.start" and not complete:
                headers = list(message.get("headers", ()))
                if not any(name.lower() == b"connection" for name, _ in headers):
                    with trio.move_on_after(_SECONDS):
                        while 0 <= left <= _LITTLE and not complete:
                            await seen()
                    if not complete:
                        message = {**message, "headers": [*headers, (b"connection", b"close")]}
            await send(message)

        await self._app(scope, seen, send_after_the_rest)
