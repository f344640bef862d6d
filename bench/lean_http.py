"""A minimal HTTP/1.1 client that costs the measuring side little: keep-alive, one request at a time, whole answers.

The bench shares its processors with the server under measurement, so it parses no more than it must: the status, the
length, and nothing of the body. It speaks to Tarry's own server, whose answers carry a Content-Length.
"""

import time
from types import TracebackType

import trio

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class RefusedError(Exception):
    """An answer other than 2xx: its status, its head in lower case, and its body."""

    def __init__(self, head: bytes, body: bytes) -> None:
        super().__init__(f"{head.splitlines()[0].decode()}: {body[:500]!r}")
        self.status = int(head.split(b" ", 2)[1])
        self.head = head
        self.body = body


class LeanHTTP:
    """A connection to a server on this machine, reopened after the server closes it; for one task at a time."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._port = port
        self._host = host
        self._stream: trio.SocketStream | None = None
        self.arrived = 0
        """The wall clock when the last answer had arrived whole, in nanoseconds."""

    async def __aenter__(self) -> "LeanHTTP":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection, if there is one."""
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)

    async def open(self) -> trio.SocketStream:
        """Returns the connection and opens it first if there is none."""
        if self._stream is None:
            self._stream = await trio.open_tcp_stream(self._host, self._port)
        return self._stream

    async def post(self, path: str, body: bytes) -> bytes:
        """Sends a POST and returns the body of the answer. Raises `RefusedError`."""
        return await self.ask("POST", path, body)

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Sends a request of any method and returns the body of the answer. Raises `RefusedError`."""
        stream = await self.open()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        await stream.send_all(head.encode() + body)
        return await self._receive(stream)

    async def _receive(self, stream: trio.SocketStream) -> bytes:
        data = b""
        while (answer := parted(data)) is None:
            more = await stream.receive_some(1 << 16)
            if not more:
                raise trio.BrokenResourceError("the server hung up")
            data += more
        self.arrived = time.time_ns()
        head, body = answer
        if b"connection: close" in head:
            await trio.aclose_forcefully(stream)
            self._stream = None
        if not head.startswith((b"http/1.1 2", b"http/1.0 2")):
            raise RefusedError(head, body)
        return body


def parted(data: bytes) -> tuple[bytes, bytes] | None:
    """The head of an answer, in lower case, and its body; None until it is whole."""
    end = data.find(_END)
    if end < 0:
        return None
    head = data[:end].lower()
    length = int(head[head.index(_LENGTH) + len(_LENGTH) :].split(b"\r", 1)[0])
    begin = end + len(_END)
    return (head, data[begin:]) if len(data) >= begin + length else None
