"""A server that answers with given bytes, connection by connection, even bytes that no HTTP server would send."""

import socket
import ssl
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress

from attrs import define, field


@define
class Said:
    """An answer. `held`: an event to wait for before sending it; `ends`: whether to close the connection after it."""

    data: bytes
    ends: bool = False
    held: threading.Event | None = None


@define
class RawPeer:
    url: str
    asked: list[tuple[int, bytes]] = field(factory=list[tuple[int, bytes]])
    """Requests, each with the number of its connection."""
    ended: list[int] = field(factory=list[int])
    """Connections that the client has closed, or that failed."""
    patience: int | None = None
    """How many bytes of a request to read before answering; None: all."""
    _answers: deque[Said] = field(factory=deque[Said])
    _connections: int = 0

    def say(self, *answers: Said | bytes) -> None:
        self._answers.extend(Said(one) if isinstance(one, bytes) else one for one in answers)

    def serve(self, connection: socket.socket) -> None:
        number, self._connections = self._connections, self._connections + 1
        with connection, suppress(OSError):
            while request := self._request(connection):
                self.asked.append((number, request))
                answer = self._answers.popleft()
                assert answer.held is None or answer.held.wait(10)
                connection.sendall(answer.data)
                if answer.ends:
                    return
        self.ended.append(number)

    def _request(self, connection: socket.socket) -> bytes:
        data = b""
        while not _is_whole(data) and (self.patience is None or len(data) < self.patience):
            more = connection.recv(65536)
            if not more:
                return b""
            data += more
        return data


def _is_whole(data: bytes) -> bool:
    head, blank, content = data.partition(b"\r\n\r\n")
    lengths = [int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")]
    return bool(blank) and len(content) >= sum(lengths)


def answer(content: bytes, *headers: bytes, status: int = 200) -> bytes:
    """A well-formed answer with this content."""
    lines = [b"HTTP/1.1 %d Said" % status, *headers, b"Content-Length: %d" % len(content)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + content


@contextmanager
def raw_peer(tls: ssl.SSLContext | None = None) -> Generator[RawPeer, None, None]:
    """Listens until the end of the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    peer = RawPeer(f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}")

    def shake_hands(connection: socket.socket) -> None:
        with suppress(OSError):  # the client refuses the certificate and reports it itself
            peer.serve(connection if tls is None else tls.wrap_socket(connection, server_side=True))

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=shake_hands, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield peer
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()
