"""A TCP proxy before a MySQL server that cuts connections exactly around a COMMIT.

    proxy = await nursery.start(Proxy(dsn).run)
    proxy.cut("after")                   # the next COMMIT: the server executes it, its answer is lost
    proxy.cut("before", b"INTO claim")   # the next COMMIT of a transaction with such a statement
    proxy.shut()                         # cuts all connections and accepts none until proxy.open()
    proxy.hush("answers")                # nothing arrives from the server until proxy.open()

It parses the packets that clients send, so a COMMIT within a message's body does not count.
"""

from collections import Counter
from typing import Literal
from urllib.parse import SplitResult, urlsplit

import attrs
import trio

Moment = Literal["before", "during", "after", "late"]
"""When the connection is cut. before: the server never gets the COMMIT. during: the client is cut off while the server
executes it. after: once the server has answered. late: before the server gets it, which happens only when somebody
asks whether it was committed."""

MOMENTS: tuple[Moment, ...] = ("before", "during", "after", "late")

Silence = Literal["questions", "answers", "both"]
"""The directions that are held back until the proxy is open again: to the server, to the client, or both."""

SILENCES: tuple[Silence, ...] = ("questions", "answers", "both")

_COM_QUERY, _MORE_RESULTS = 3, 8


@attrs.frozen(eq=False)
class Cut:
    """Cuts the connection at the next COMMIT of a transaction whose statements contain each of `words`."""

    moment: Moment
    words: tuple[bytes, ...]
    done: trio.Event = attrs.field(factory=trio.Event)


class Proxy:
    def __init__(self, dsn: str) -> None:
        self._to = urlsplit(dsn)
        self.dsn = dsn
        """The DSN; once the proxy runs, it leads through the proxy."""
        self.cuts: list[Cut] = []
        """Cuts that have not happened yet."""
        self.counts: Counter[Moment] = Counter()
        """Connections cut so far, by moment."""
        self.asks = b"FROM witness"
        """A statement with these words asks whether a transaction was committed."""
        self._asked = trio.Event()
        self._lets_in = True
        self._joined: set[trio.CancelScope] = set()
        self._up, self._down = trio.Event(), trio.Event()
        """Set while packets pass to the server, and to the client."""
        self.open()

    def open(self) -> None:
        """Lets connections and packets through again."""
        self._lets_in = True
        self._up.set()
        self._down.set()

    def hush(self, what: Silence) -> None:
        """Keeps connections open, but holds back what is sent in this direction."""
        if what != "answers":
            self._up = trio.Event()
        if what != "questions":
            self._down = trio.Event()

    def shut(self) -> None:
        """Cuts all connections and closes new ones at once."""
        self._lets_in = False
        for scope in self._joined:
            scope.cancel()

    @property
    def done(self) -> int:
        """Connections cut by a COMMIT so far."""
        return self.counts.total()

    def cut(self, moment: Moment, *words: bytes) -> Cut:
        cut = Cut(moment, words)
        self.cuts.append(cut)
        return cut

    async def run(self, task_status: "trio.TaskStatus[Proxy]") -> None:
        listener, self.dsn = await listen_before(self._to)
        task_status.started(self)
        await trio.serve_listeners(self._join, [listener])

    async def _join(self, client: trio.SocketStream) -> None:
        if not self._lets_in:
            await trio.aclose_forcefully(client)
            return
        server = await connect_to(self._to)
        deaf = trio.Event()  # set: answers of the server no longer reach the client
        answered = trio.Event()
        said: list[bytes] = []  # statements of the open transaction

        async def up() -> None:
            packets = _Packets(client)
            while (packet := await packets.next()) is not None:
                text = packet[5:] if packet[3:5] == b"\0" + bytes([_COM_QUERY]) else b""
                said.append(text)
                if self.asks in text:
                    self._asked.set()
                # Other statements may precede it in the packet; a body cannot end like this, since it is hexadecimal.
                if text.endswith(b"COMMIT") and (cut := self._next(said)) is not None:
                    await end(packet, cut)
                    break
                if text.endswith((b"COMMIT", b"ROLLBACK")):
                    said.clear()
                await self._up.wait()
                await server.send_all(packet)
            nursery.cancel_scope.cancel()

        async def end(commit: bytes, cut: Cut) -> None:
            self.counts[cut.moment] += 1
            cut.done.set()
            if cut.moment == "before":
                return
            deaf.set()
            if cut.moment == "late":
                self._asked = trio.Event()
                await client.aclose()
                await self._asked.wait()
            await server.send_all(commit)
            if cut.moment == "during":
                await client.aclose()
            await answered.wait()

        async def down() -> None:
            packets = _Packets(server)
            while (packet := await packets.next()) is not None:
                if not deaf.is_set():
                    await self._down.wait()
                    await client.send_all(packet)
                elif _is_last(packet):
                    answered.set()
                    await trio.sleep_forever()
            nursery.cancel_scope.cancel()

        joined = trio.CancelScope()
        self._joined.add(joined)
        try:
            with joined:
                async with client, server, trio.open_nursery() as nursery:
                    nursery.start_soon(up)
                    nursery.start_soon(down)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._joined.discard(joined)

    def _next(self, said: list[bytes]) -> Cut | None:
        """Removes and returns the first waiting cut that matches a transaction with these statements."""
        for cut in self.cuts:
            if all(any(words in text for text in said) for words in cut.words):
                self.cuts.remove(cut)
                return cut
        return None


async def listen_before(server: SplitResult) -> tuple[trio.SocketListener, str]:
    """Opens a listener on a free port; returns it with the DSN that reaches the database through it."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    login, _, _ = server.netloc.rpartition("@")
    return listener, server._replace(netloc=f"{login}@127.0.0.1:{listener.socket.getsockname()[1]}").geturl()


async def connect_to(server: SplitResult) -> trio.SocketStream:
    return await trio.open_tcp_stream(server.hostname or "localhost", server.port or 3306)


def _is_last(packet: bytes) -> bool:
    """Whether this packet ends the answer to statements without rows: an error, or an OK with no more results."""
    if packet[4] == 0xFF:
        return True
    position = 5
    for _ in range(2):  # affected rows, last insert id
        position += {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(packet[position], 1)
    return not packet[position] & _MORE_RESULTS


class _Packets:
    """Reads a stream as whole packets: length in 3 bytes, sequence number, payload."""

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
