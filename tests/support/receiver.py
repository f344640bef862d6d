"""A webhook endpoint for tests: real sockets, and raw bytes as answers, so that they can be as wrong as needed."""

import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple


class Received(NamedTuple):
    """A request; header names are in lower case."""

    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


Answer = Callable[[Received], bytes | None]
"""Returns the bytes to answer with; None: no answer, and the connection stays open."""


def head(status: int, *headers: str) -> bytes:
    """An answer without content."""
    return "\r\n".join([f"HTTP/1.1 {status} Told", *headers, "Content-Length: 0", "", ""]).encode()


OK = head(200)


class Receiver(socketserver.ThreadingTCPServer):
    """Listens on loopback. `answer` may be changed at any time."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 100

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[Received] = []
        self.answer: Answer = lambda _: OK
        self.most_at_once = 0
        self.keeps = False
        """Whether connections are kept open after a complete answer; otherwise each is closed after its first one."""
        self.connections = 0
        self.after = b""
        """Bytes to send a moment after the first answer of each connection, without a request."""
        self.went_on = threading.Event()
        """Set when they were sent."""
        self._at_once = 0
        self._came = threading.Condition()
        self._tls = tls
        self.ended = threading.Event()
        """When set, connections that are kept open end."""
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.server_address[1]}"

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def wait_for(self, many: int, seconds: float = 20) -> list[Received]:
        """Waits for `many` requests; returns all that have come."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.received) >= many, seconds), f"{len(self.received)} came"
            return list(self.received)

    def take(self, received: Received) -> bytes | None:
        with self._came:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.received.append(received)
            self._came.notify_all()
        try:
            return self.answer(received)
        finally:
            with self._came:
                self._at_once -= 1

    def finish_request(self, request: Any, client_address: Any) -> None:
        with self._came:
            self.connections += 1
        if self._tls is not None:
            with suppress(OSError), self._tls.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)
        else:
            super().finish_request(request, client_address)


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Receiver)
        with suppress(OSError):
            while (line := self.rfile.readline().decode()) and self._answer(line.split()[1]) and self.server.keeps:
                pass

    def _answer(self, target: str) -> bool:
        """Answers a request; returns whether the connection can go on after it."""
        assert isinstance(self.server, Receiver)
        headers: dict[str, str] = {}
        while (line := self.rfile.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        answer = self.server.take(Received(target, headers, body))
        if answer is None:
            self.server.ended.wait()
        else:
            self.wfile.write(answer)
        if self.server.after:
            time.sleep(0.05)
            self.wfile.write(self.server.after)
            self.server.went_on.set()
        return bool(answer)


@contextmanager
def receiver(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Starts a receiver, which listens in threads until the end of the block."""
    with Receiver(tls) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
