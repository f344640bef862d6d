"""Many connections at the least cost to the measuring side: one thread over epoll, requests made beforehand.

The measuring side shares the processors with the server, so it parses no more than it must: the status, the length, and
nothing of the body that a script does not ask for.
"""

import json
import select
import socket
import time
from collections.abc import Callable, Generator, Sequence

from attrs import define, field

from .lean_http import parted
from .report import Figures, percentile

Script = Generator[bytes, bytes, None]
"""One connection's requests: gives the bytes of a request, and gets the body of its answer."""

_WARM_UP = 0.1
_READ = 1 << 18


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """A request with its body, whole."""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


@define
class Publishes:
    """Publishers of one message at a time, and how many messages they have published."""

    messages: int = 0

    def publisher(self, data: bytes) -> Script:
        """The same request for ever."""
        while True:
            yield data
            self.messages += 1


@define
class Claims:
    """Consumers of a group `g`, and how many messages they have had."""

    size: int
    """Messages to a claim, at most."""
    messages: int = 0

    def consumer(self, number: int, topic: str) -> Script:
        """Claims and acks until nothing comes for a second."""
        body = json.dumps({"client": f"c{number}", "max": self.size, "wait": "1s"}).encode()
        while True:
            claim = json.loads((yield request("POST", f"/v1/topics/{topic}/groups/g/claim", body)))
            if not claim["claim"]:
                return
            yield request("POST", f"/v1/claims/{claim['claim']}/ack", b"{}")
            self.messages += len(claim["messages"])

    def drive(self, scripts: Sequence[tuple[int, Script]], seconds: float, cpu: Callable[[], float]) -> Figures:
        """As `drive`, whose rate and processor time are then of messages."""
        before, began = cpu(), time.perf_counter()
        figures = drive(scripts, seconds, cpu)
        took, used = time.perf_counter() - began, cpu() - before
        return figures | {
            "per_s": round(self.messages / took),
            "server_cpu_us": round(used / self.messages * 1e6, 1),
        }


@define(eq=False)
class _Connection:
    socket: socket.socket
    script: Script
    asked_at: float = 0.0
    read: bytes = b""
    body: bytes = field(default=b"", init=False)

    def ask(self, data: bytes) -> None:
        self.asked_at = time.perf_counter()
        self.socket.sendall(data)

    def answered(self) -> bool:
        """Whether an answer is whole. Raises `RuntimeError` for one that is no yes."""
        data = self.socket.recv(_READ)
        if not data:
            raise RuntimeError("the server hung up")
        self.read += data
        answer = parted(self.read)
        if answer is None:
            return False
        head, self.body = answer
        self.read = b""
        if not head.startswith(b"http/1.1 2"):
            raise RuntimeError(f"{head!r}: {self.body[:300]!r}")
        return True


def drive(scripts: Sequence[tuple[int, Script]], seconds: float, cpu: Callable[[], float]) -> Figures:
    """Each script on a connection of its own to a port, until it ends or the time is over; `cpu` is the servers' so
    far."""
    connections: dict[int, _Connection] = {}
    with select.epoll() as ready:
        for port, script in scripts:
            one = _Connection(socket.create_connection(("127.0.0.1", port)), script)
            one.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connections[one.socket.fileno()] = one
            ready.register(one.socket, select.EPOLLIN)
        for one in connections.values():
            one.ask(next(one.script))
        begins = time.perf_counter() + seconds * _WARM_UP
        ends, times, used = begins + seconds, list[float](), cpu()
        waiting, now = len(connections), 0.0
        while waiting and now < ends:
            for descriptor, _ in ready.poll(1):
                one = connections[descriptor]
                if not one.answered():
                    continue
                now = time.perf_counter()
                if now < begins:
                    used = cpu()
                else:
                    times.append(now - one.asked_at)
                try:
                    one.ask(one.script.send(one.body))
                except StopIteration:
                    waiting -= 1
        took, used = now - begins, cpu() - used
        for one in connections.values():
            one.socket.close()
    times.sort()
    return {
        "per_s": round(len(times) / took),
        "server_cpu_us": round(used / len(times) * 1e6, 1),
        "p50_ms": round(percentile(times, 0.5) * 1000, 2),
        "p99_ms": round(percentile(times, 0.99) * 1000, 2),
    }
