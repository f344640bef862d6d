"""Publishes many messages as lines of one request, cheaply for the measuring side: answers are counted, not parsed."""

import socket
import threading
from collections.abc import Iterable

_READ = 1 << 18
_RECEIPT = b'{"id":'
_END = b"\r\n0\r\n\r\n"


def publish_lines(port: int, body: bytes, many: int, *, keyed: bool, topic: str = "orders") -> None:
    """Publishes `many` messages with this body, each with its own idempotency key if `keyed`. Raises `RuntimeError`
    when one was not accepted."""
    if keyed:
        data = b"".join([b'{"body":%b,"idempotency_key":"%d"}\n' % (body, number) for number in range(many)])
    else:
        data = (b'{"body":%b}\n' % body) * many
    send_lines(port, [data], many, topic=topic)


def send_lines(port: int, pieces: Iterable[bytes], many: int, *, topic: str) -> None:
    """Sends `many` lines, in pieces as the iterable yields them. Raises `RuntimeError` when one was not accepted."""
    head = f"POST /v1/topics/{topic}/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-ndjson\r\n"
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())

        def send() -> None:
            for piece in pieces:
                line.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            line.sendall(b"0\r\n\r\n")

        sending = threading.Thread(target=send)
        sending.start()
        accepted, read = 0, b""
        while not read.endswith(_END):
            if not (data := line.recv(_READ)):
                raise RuntimeError("the server hung up")
            # A receipt may be split between two pieces, so the end of each piece is searched again with the next.
            accepted += (read + data).count(_RECEIPT) - read.count(_RECEIPT)
            read = (read + data)[-20:]
        sending.join()
    if accepted != many:
        raise RuntimeError(f"{accepted} of {many} lines were accepted")
