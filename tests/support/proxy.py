"""A line to a MySQL server that is cut exactly around a COMMIT.

    proxy = await nursery.start(Proxy(dsn).run)
    proxy.cuts.append("after")          # the next COMMIT: the server carries it out, its answer is lost with the line
    proxy.cuts.append("before")         # the one after that: the server never hears it

It reads the headers of the packets that clients send, so that a COMMIT within a body is none.
"""

from collections import deque
from typing import Literal
from urllib.parse import urlsplit

import trio

_COM_QUERY = 3


class Proxy:
    def __init__(self, dsn: str) -> None:
        self._to = urlsplit(dsn)
        self.dsn = dsn
        """Leads over the proxy once it runs."""
        self.cuts: deque[Literal["before", "after"]] = deque()
        """What happens to the next COMMITs, one entry each."""
        self.statement = b"COMMIT"
        self.done = 0
        """Lines cut."""

    async def run(self, task_status: "trio.TaskStatus[Proxy]") -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        login, _, _ = self._to.netloc.rpartition("@")
        self.dsn = self._to._replace(netloc=f"{login}@127.0.0.1:{listener.socket.getsockname()[1]}").geturl()
        task_status.started(self)
        await trio.serve_listeners(self._join, [listener])

    async def _join(self, client: trio.SocketStream) -> None:
        server = await trio.open_tcp_stream(self._to.hostname or "localhost", self._to.port or 3306)
        deaf = trio.Event()  # what the server says no longer reaches the client
        answered = trio.Event()

        async def up() -> None:
            packets = _Packets(client)
            while (packet := await packets.next()) is not None:
                if self.cuts and packet[3:] == b"\0" + bytes([_COM_QUERY]) + self.statement:
                    self.done += 1
                    if self.cuts.popleft() == "before":
                        break
                    deaf.set()
                    await server.send_all(packet)
                    await answered.wait()
                    break
                await server.send_all(packet)
            nursery.cancel_scope.cancel()

        async def down() -> None:
            async for data in server:
                if deaf.is_set():
                    answered.set()
                    await trio.sleep_forever()
                await client.send_all(data)
            nursery.cancel_scope.cancel()

        try:
            async with client, server, trio.open_nursery() as nursery:
                nursery.start_soon(up)
                nursery.start_soon(down)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


class _Packets:
    """A stream in whole packets: length in 3 bytes, sequence number, payload."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._held = bytearray()

    async def next(self) -> bytes | None:
        while len(self._held) < 4 or len(self._held) < 4 + int.from_bytes(self._held[:3], "little"):
            data = await self._stream.receive_some()
            if not data:
                return None
            self._held += data
        size = 4 + int.from_bytes(self._held[:3], "little")
        packet = bytes(self._held[:size])
        del self._held[:size]
        return packet
