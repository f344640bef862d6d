"""Small requests stay small: attacks on a real server, beside which it answers, and whose memory stays what it was.

While an attack is under way somebody asks for /livez again and again, and a key publishes. How long that may take is
not for a test to judge, on a machine that does something else as well: it is held against the attack. What took the
server seconds at a time took a few looks at most; and what is held in memory is the process's own, by the kernel.
"""

import os
import resource
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median

import httpx
import pytest

from support.effort import full, tries
from support.serving import Served, served
from support.waiting import wait_until
from tarry.service.demo.server_process import free_port

MIB = 1 << 20
MESSAGES = "/v1/topics/orders/messages"
CROWD = 1_100
HEADERS = b",".join(b'"%x":""' % one for one in range(10**5))
_COUNTED = 0.0021
"""Seconds of a processor's time that `count` takes on the quiet machine where the limits were set."""


class Attacked:
    """A server with keys."""

    def __init__(self, server: Served, port: int) -> None:
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.keys = {
            name: server.key(name, *scopes)
            for name, scopes in {
                "pub": ("publish:*",),
                "con": ("consume:*/*",),
                "read": ("read:*",),
                "ops": ("operate:*",),
            }.items()
        }

    def client(self, key: str | None = None) -> httpx.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {self.keys[key]}"}
        return httpx.Client(base_url=self.url, timeout=60, headers=headers)

    def head(self, method: str, path: str, length: int, key: str | None = None, more: str = "") -> bytes:
        named = f"Authorization: Bearer {self.keys[key]}\r\n" if key else ""
        return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{named}{more}Content-Length: {length}\r\n\r\n".encode()

    def crowd(self, stack: ExitStack, count: int) -> list[socket.socket]:
        """Connections that take little."""
        found: list[socket.socket] = []
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(20)
            one.connect(("127.0.0.1", self.port))
            one.setblocking(False)
            found.append(one)
        return found

    @property
    def memory(self) -> int:
        """MiB that the process has at most had since `forget`."""
        status = Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) >> 10

    def forget(self) -> None:
        Path(f"/proc/{self.server.process.pid}/clear_refs").write_text("5")

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def bounded(self, more: int, seconds: float) -> Iterator[None]:
        """The block takes no more than so many MiB, and the server is at work for no longer in one go: of its own
        processor's time, for what the machine does besides is not its fault. Where a processor shares its core with
        another that is busy, it takes longer for the same work; so the limit goes by how long it takes to count."""
        self.forget()
        before, said = self.memory, len(self.server.log)
        longest, there, stop = [0.0], threading.Event(), threading.Event()
        counted = list[float]()

        def look() -> None:
            with self.client() as client:
                while not stop.is_set():
                    began = self.cpu()
                    assert client.get("/livez").status_code == 200
                    longest[0] = max(longest[0], self.cpu() - began)
                    counted.append(count())
                    there.set()

        thread = threading.Thread(target=look)
        thread.start()
        assert there.wait(10)
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert self.memory - before <= more, f"{self.memory - before} MiB more"
        slower = max(1, median(counted) / _COUNTED)
        assert longest[0] <= seconds * slower, f"{longest[0]:.2f} s of work before /livez was answered"
        assert "Traceback" not in self.server.log[said:]


def count() -> float:
    """Seconds of the processor's time that it takes to count to a hundred thousand."""
    began = time.thread_time()
    sum(range(100_000))
    return time.thread_time() - began


def say(crowd: list[socket.socket], data: bytes) -> None:
    """Each says it, as far as it is heard."""
    with selectors.DefaultSelector() as selector:
        for one in crowd:
            selector.register(one, selectors.EVENT_WRITE, data)
        while ready := selector.select(0.5):
            for key, _ in ready:
                at = key.fileobj
                assert isinstance(at, socket.socket)
                left: bytes = key.data
                try:
                    left = left[at.send(left) :]
                except OSError:
                    left = b""
                if left:
                    selector.modify(at, selectors.EVENT_WRITE, left)
                else:
                    selector.unregister(at)
            if not selector.get_map():
                return


def first_of(connection: socket.socket) -> bytes:
    with suppress(OSError):
        connection.settimeout(5)
        return connection.recv(12)
    return b""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    port = free_port()
    with served(tmp_path_factory.mktemp("attacked")) as server:
        assert server.tarry("migrate").returncode == 0
        attacked = Attacked(server, port)
        server.environment["TARRY_BODY_TIMEOUT"] = "1h"
        server.start("--listen", f"127.0.0.1:{port}")
        with attacked.client("pub") as client:
            assert client.post(MESSAGES, json={"body": 1}).status_code == 201
        yield attacked
        assert server.stop() == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def deep() -> bytes:
    """50 KB without a key: a fault, and beside it long names around many numbers."""
    inside = "[" + ",".join("0" * 15_000) + "]"
    for _ in range(180):
        inside = f'{{"{"~" * 100}":{inside}}}'
    return f'{{"key":"\\ud800","\U0001f600":{inside},"key":"a"}}'.encode()


def messages(one: bytes, room: int = 8 * MIB) -> bytes:
    return b'{"messages":[' + b",".join([one] * (room // (len(one) + 1))) + b"]}"


DEAR: dict[str, tuple[str, str, Callable[[], bytes], str | None]] = {
    "a fault beside deep names, without a key": ("POST", "/v1/session", deep, None),
    "and with one": ("PUT", "/v1/topics/orders", lambda: deep().replace(b'"key"', b'"kind"'), "ops"),
    "a fault behind numbers": (
        "POST",
        MESSAGES,
        lambda: b'{"body":[' + b"0," * (4 * MIB - 50) + b'0],"key":"\\ud800"}',
        "pub",
    ),
    "empty messages": ("POST", MESSAGES, lambda: messages(b"{}"), "pub"),
    "headers without end": ("POST", MESSAGES, lambda: messages(b'{"body":1,"headers":{%b}}' % HEADERS), "pub"),
    "a name of 8 MiB": ("POST", MESSAGES, lambda: b'{"' + b"a" * (8 * MIB - 50) + b'":1}', "pub"),
    "a duration of 8 MiB": (
        "POST",
        MESSAGES,
        lambda: b'{"body":1,"delay":"' + b"1" * (8 * MIB - 100) + b'"}',
        "pub",
    ),
    "a word of 4 MiB": (
        "POST",
        "/v1/claims/settle",
        lambda: b'{"settle":[{"claim":"","ack":"%b"}]}' % (b"a" * (4 * MIB - 50)),
        "con",
    ),
}


@pytest.mark.parametrize("name", DEAR)
def test_one_request(attacked: Attacked, name: str) -> None:
    method, path, made, key = DEAR[name]
    body = made()
    with attacked.client(key) as client, attacked.bounded(60, 0.4):
        for _ in range(3):
            answer = client.request(method, path, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code in (400, 413), answer.text[:300]
            assert len(answer.content) < 8192, "what came is not told back"


def unfinished(attacked: Attacked, path: str, size: int) -> bytes:
    """All but the last byte."""
    head = attacked.head("POST", path, size, more="Content-Type: application/json\r\n")
    return head + b'{"key":"' + b"a" * (size - 9)


@pytest.mark.parametrize("path", ["/v1/session", "/ui/sign-in"])
@pytest.mark.cases(1)
def test_who_has_no_key_takes_nothing_from_who_has(attacked: Attacked, path: str) -> None:
    """A crowd that sends more together than the requests of all may have."""
    body = {"messages": [{"body": "x" * 100_000} for _ in range(20)]}
    with ExitStack() as stack, attacked.bounded(150, 2), attacked.client("pub") as client:
        say(attacked.crowd(stack, CROWD), unfinished(attacked, path, 64 << 10))
        assert {client.post(MESSAGES, json=body).status_code for _ in range(5)} == {201}


def test_answers_that_nobody_reads_have_a_limit(attacked: Attacked) -> None:
    path = "/v1/topics/big/queues/0/messages?max=32"
    with attacked.client("pub") as client:
        many = {"messages": [{"body": "a" * 250_000}] * 32}
        assert client.post("/v1/topics/big/messages", json=many).status_code == 201
    with ExitStack() as stack, attacked.bounded(300, 2):
        crowd = attacked.crowd(stack, 60)
        say(crowd, attacked.head("GET", path, 0, "read"))
        with attacked.client("ops") as other, attacked.client("pub") as client:
            assert client.post(MESSAGES, json={"body": 1}).status_code == 201
            assert other.get("/v1/topics/big/groups/g/push").status_code == 404, "it is asked, and not overloaded"
        heard = [begin for one in crowd if (begin := first_of(one))]
        assert heard.count(b"HTTP/1.1 200") <= 8, "of the limit a key has half"
        assert heard.count(b"HTTP/1.1 503") >= 40
    with attacked.client("read") as client:
        wait_until(lambda: client.get(path).status_code == 200)


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/livez", "/ui/sign-in"])
@pytest.mark.cases(1)
def test_nor_does_who_sends_on_and_reads_nothing_take_much(attacked: Attacked, path: str) -> None:
    with ExitStack() as stack, attacked.bounded(130, 2):
        crowd = attacked.crowd(stack, 400)
        say(crowd, f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * 1_500)
        with attacked.client("pub") as client:
            assert client.post(MESSAGES, json={"body": 1}).status_code == 201


@full
def test_crowds_that_come_and_go_do_not_hold_up_who_is_there(attacked: Attacked) -> None:
    """Thousands of connections, of which the one hears nothing that was answered before they came."""
    many = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n" * 1_500
    with attacked.bounded(200, 0.8):
        for _ in range(tries(5, 15)):
            with ExitStack() as stack:
                say(attacked.crowd(stack, 400), many)


def test_a_settle_of_what_is_not_there_is_bounded(attacked: Attacked) -> None:
    with attacked.client("ops") as client:
        assert client.put("/v1/topics/wide", json={"queues": 64}).status_code == 201
    with attacked.client("pub") as client:
        spread = {"messages": [{"body": 1, "queue": queue} for queue in range(64)]}
        assert client.post("/v1/topics/wide/messages", json=spread).status_code == 201
    with attacked.client("con") as client:
        claim = client.post("/v1/topics/wide/groups/g/claim", json={"client": "c", "max": 64}).json()["claim"]
        first, *others = claim.split(".")
        group, queue, _, offset, token = first.split("-")
        places = [one.split("-") for one in others]

        def other(number: int) -> str:
            more = ".".join(f"{q}-{number}-{at}" for q, _, at in places)
            return f"{group}-{queue}-{number}-{offset}-{token}.{more}"

        unknown = [{"claim": other(1000 + number), "ack": ["1"]} for number in range(1000)]
        began = attacked.cpu()
        with attacked.bounded(60, 0.5):
            answer = client.post("/v1/claims/settle", json={"settle": unknown[:150]})
            assert {one["error"]["status"] for one in answer.json()["settled"]} == {404}
            assert client.post("/v1/claims/settle", json={"settle": unknown}).status_code == 400
        assert attacked.cpu() - began < 1.2, "9,600 places were looked up together"
        assert client.post("/v1/claims/settle", json={"settle": [{"claim": claim, "ack": "all"}]}).json()[
            "settled"
        ] == [{"acked": 64, "retried": 0, "dead": 0}]
