"""What does a post to a webhook cost, and what does a connection save that is used again?

    python -m tarry.bench.pushes [--dsn sqlite] [--messages 2000] [--in-flight 1 10 100] [--runs 3]

Messages of 200 bytes wait in a topic; then its group is given an HTTPS endpoint on loopback, a process of its own that
answers 200 at once:

    kept        the endpoint leaves connections open, and the next post goes over one of them
    anew        it closes each after its answer, so that each post has a handshake

Both alternate, run after run, each with a server and an empty database of its own, for each number of posts at once.
`per_s` is from the first post to the last, `server_cpu_us` the server's processor time for one, claim and ack in it.
"""

import asyncio
import multiprocessing
import os
import secrets
import ssl
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..client import Tarry
from . import databases
from .report import Figures, chosen, column, ratios, spreads, summarize
from .subject import BODY, served
from .usage import cpu_of

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import SynchronizedArray

_PATIENCE = 300
"""Seconds until all should have come."""
_PART = 1000
"""Messages of one publish."""


def main() -> None:
    parser = databases.options("pushes", __doc__, "sqlite", runs=3)
    parser.add_argument("--messages", type=databases.count, default=2000, help="that are posted")
    parser.add_argument("--in-flight", type=databases.count, nargs="+", default=[1, 10, 100], help="posts at once")
    arguments = parser.parse_args()
    with databases.server(arguments.dsn) as dsn:
        for in_flight in arguments.in_flight:
            contestants: dict[str, Callable[[str], Figures]] = {
                "kept": partial(measure, arguments.messages, in_flight, True),
                "anew": partial(measure, arguments.messages, in_flight, False),
            }
            runs = databases.alternate(dsn, "pushes", arguments.runs, contestants, in_flight=in_flight)
            rates = column(runs, "per_s")
            summarize(
                "pushes",
                **chosen(arguments, "messages", "runs"),
                in_flight=in_flight,
                per_s=spreads(rates),
                server_cpu_us=spreads(column(runs, "server_cpu_us")),
                connections=spreads(column(runs, "connections")),
                load=round(os.getloadavg()[0], 1),
                times={"anew": ratios(rates, "kept", "anew")},
            )


def measure(messages: int, in_flight: int, keeps: bool, dsn: str) -> Figures:
    """With a server and an endpoint of its own."""
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
        _write_certificate(Path(folder))
        trusted = {"TARRY_PUSH_ALLOW": "127.0.0.1/32", "SSL_CERT_FILE": f"{folder}/server.pem"}
        with (
            _endpoint(folder, keeps) as seen,
            served(dsn, environment=trusted) as server,
            Tarry(server.url) as tarry,
        ):
            tarry.put_group("orders", "shop")
            for begin in range(0, messages, _PART):
                tarry.publish_many("orders", [{"body": BODY.decode()}] * min(_PART, messages - begin))
            secret = "whsec_" + b64encode(secrets.token_bytes(32)).decode()
            url, before = f"https://127.0.0.1:{int(seen[0])}/in", cpu_of(server.pid)
            tarry.put_push("orders", "shop", url, secret, max_in_flight=in_flight)
            deadline = time.monotonic() + _PATIENCE
            while tarry.group("orders", "shop")["acked"] < messages:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{seen[2]:.0f} of {messages} came within {_PATIENCE} s")
                time.sleep(0.1)
            used = cpu_of(server.pid) - before
    _, connections, came, first, last = seen[:]
    if came != messages:
        raise AssertionError(f"{came:.0f} came of {messages}")
    return {
        "per_s": round((messages - 1) / (last - first)),
        "server_cpu_us": round(used / messages * 1e6),
        "connections": int(connections),
    }


def _write_certificate(folder: Path) -> None:
    """Its own authority, good for a day."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=bench"
    more = ("subjectAltName=IP:127.0.0.1", "keyUsage=critical,keyCertSign,digitalSignature")
    extended = [word for one in more for word in ("-addext", one)]
    files = ["-keyout", str(folder / "server-key.pem"), "-out", str(folder / "server.pem")]
    subprocess.run([*command.split(), *extended, *files], check=True, capture_output=True)


@contextmanager
def _endpoint(folder: str, keeps: bool) -> Generator["SynchronizedArray[float]", None, None]:
    """In a process of its own: its port, its connections, its posts, and when the first and the last came."""
    spawn = multiprocessing.get_context("spawn")
    seen = spawn.Array("d", 5)
    process = spawn.Process(target=_listen, args=(folder, keeps, seen), daemon=True)
    process.start()
    try:
        deadline = time.monotonic() + 30
        while not seen[0]:
            if time.monotonic() > deadline or not process.is_alive():
                raise AssertionError("the endpoint does not listen")
            time.sleep(0.02)
        yield seen
    finally:
        process.terminate()
        process.join()


def _listen(folder: str, keeps: bool, seen: Any) -> None:
    async def listen() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server-key.pem")
        loop = asyncio.get_running_loop()
        server = await loop.create_server(partial(_Answers, keeps, seen), "127.0.0.1", 0, ssl=context, backlog=1000)
        seen[0] = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    asyncio.run(listen())


class _Answers(asyncio.Protocol):
    """Reads no more of a post than its length."""

    def __init__(self, keeps: bool, seen: Any) -> None:
        self._keeps = keeps
        self._seen = seen
        self._data = b""
        close = b"" if keeps else b"Connection: close\r\n"
        self._answer = b"HTTP/1.1 200 OK\r\n%bContent-Length: 0\r\n\r\n" % close

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._seen[1] += 1

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, rest = self._data.partition(b"\r\n\r\n")
        if not end or len(rest) < int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        self._data = b""
        now = time.monotonic()
        self._seen[2] += 1
        self._seen[3] = self._seen[3] or now
        self._seen[4] = now
        self._transport.write(self._answer)
        if not self._keeps:
            self._transport.close()


if __name__ == "__main__":
    main()
