"""A proxy to a server that can be cut as a whole: nothing passes any more, and no new connection is accepted."""

from contextlib import suppress
from urllib.parse import urlsplit

import trio


class Line:
    def __init__(self, dsn: str) -> None:
        self._to = urlsplit(dsn)
        self.dsn = dsn
        """The DSN; once the line runs, it leads through it."""
        self._scope = trio.CancelScope()
        self.lines = 0
        """How many connections there were."""

    async def run(self, task_status: "trio.TaskStatus[Line]") -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        login, _, _ = self._to.netloc.rpartition("@")
        self.dsn = self._to._replace(netloc=f"{login}@127.0.0.1:{listener.socket.getsockname()[1]}").geturl()
        with self._scope:
            task_status.started(self)
            await trio.serve_listeners(self._join, [listener])

    def cut(self) -> None:
        """Cuts all connections, at once and for ever."""
        self._scope.cancel()

    async def _join(self, client: trio.SocketStream) -> None:
        self.lines += 1
        server = await trio.open_tcp_stream(self._to.hostname or "localhost", self._to.port or 3306)

        async def copy(source: trio.SocketStream, sink: trio.SocketStream) -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async for data in source:
                    await sink.send_all(data)
            nursery.cancel_scope.cancel()

        async with client, server, trio.open_nursery() as nursery:
            nursery.start_soon(copy, client, server)
            nursery.start_soon(copy, server, client)
