"""The front door of a real server: no bytes end it, who has left keeps nothing of it, and it shuts in time."""

import os
import signal
import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import trio

from support.certificates import write_certificates
from support.raw_streams import send_streams
from support.server import client_of, start_server
from support.serving import served
from support.waiting import wait_until
from tarry.service.demo.server_process import ServerProcess, free_port

LEFT_SECONDS = 2.0
STOP_SECONDS = 3
"""From the signal to the end of the process. It takes a tenth of one; a server that waits for clients to go takes what
its grace leaves to requests, 15."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "streams" in metafunc.fixturenames:
        metafunc.parametrize("streams", [1000, pytest.param(20_000, marks=[pytest.mark.long])])


def test_no_bytes_end_the_server(server: ServerProcess, streams: int) -> None:
    pid = server.pid
    heard = trio.run(send_streams, server.port, 9, streams)
    assert (heard.refused, heard.stuck) == (0, [])
    assert httpx.get(f"{server.url}/livez").status_code == 200
    assert server.pid == pid
    assert not {"101", "500"} & set(heard.answers), heard.answers
    assert len([status for status in heard.answers if status.isdigit()]) > 8, heard.answers
    log = server.tail(1 << 20)
    assert "connection_failed" not in log
    assert "Traceback" not in log


@pytest.mark.long
def test_nor_over_tls(tmp_path: Path, streams: int) -> None:
    trusting = ssl.create_default_context(cafile=write_certificates(tmp_path))
    port = free_port()
    with served(tmp_path) as server:
        server.start("--listen", f"127.0.0.1:{port}", "--tls-cert", "server.pem", "--tls-key", "server-key.pem")
        heard = trio.run(send_streams, port, 9, streams // 2, trusting)
        assert (heard.refused, heard.stuck) == (0, [])
        assert httpx.get(f"https://127.0.0.1:{port}/livez", verify=trusting).status_code == 200
        assert not {"101", "500"} & set(heard.answers), heard.answers
        assert len([status for status in heard.answers if status.isdigit()]) > 8, heard.answers
        assert server.stop() == 0
        assert "connection_failed" not in server.log
        assert "Traceback" not in server.log


def sockets_of(pid: int) -> int:
    """Open connections of a process, those to clients and no others: the server has no more in a test."""
    count = 0
    for descriptor in os.scandir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            count += os.readlink(descriptor.path).startswith("socket:")
    return count


def quiet_sockets_of(pid: int) -> int:
    """The same when nobody is connected: whoever asked whether the server is ready is on its way out."""
    counts = [sockets_of(pid)]

    def same_for_long() -> bool:
        counts.append(sockets_of(pid))
        return len(counts) > 49 and len({*counts[-50:]}) == 1

    wait_until(same_for_long)
    return counts[-1]


def get(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def post(target: str, body: bytes, length: int | None = None) -> bytes:
    length = len(body) if length is None else length
    return f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode() + body


CLAIM = post("/v1/topics/orders/groups/billing/claim", b'{"client": "c1", "wait": "30s"}')
LEAVING = {
    "after an answer": get("/livez"),
    "at once": b"",
    "in a head": b"GET /livez HT",
    "in a body": post("/v1/topics/orders/messages", b"[" * 100, 8 << 20),
    "in a long poll": CLAIM,
    "in a long poll with more behind it": CLAIM + CLAIM + get("/livez") * 9,
    "without reading": get("/openapi.json") * 200,
}


@pytest.mark.parametrize("bytes_", LEAVING.values(), ids=LEAVING)
@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
@pytest.mark.cases(4)
def test_who_has_left_holds_nothing(server: ServerProcess, bytes_: bytes, reset: bool) -> None:
    before = quiet_sockets_of(server.pid)
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for client in clients:
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.send(bytes_)
    wait_until(lambda: sockets_of(server.pid) == before + 20)
    if bytes_ == get("/livez"):
        for client in clients:
            client.setblocking(True)
            assert client.recv(12) == b"HTTP/1.1 200"
    for client in clients:
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
    wait_until(lambda: sockets_of(server.pid) == before, LEFT_SECONDS)


async def answer_on(stream: trio.SocketStream) -> bytes:
    with trio.fail_after(10):
        return b"".join([piece async for piece in stream])


def status_of(answer: bytes) -> int:
    return int(answer[9:12])


async def test_only_who_calls_it_by_its_name_is_served(server: ServerProcess) -> None:
    async def ask(head: str) -> int:
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            await stream.send_all(f"{head}\r\nConnection: close\r\n\r\n".encode())
            return status_of(await answer_on(stream))

    assert await ask("GET /v1/topics HTTP/1.1\r\nHost: evil.example") == 421
    assert await ask("GET /v1/topics HTTP/1.0\r\nHost: evil.example") == 421
    assert await ask("GET /v1/topics HTTP/1.0") == 200
    assert await ask(f"GET /v1/topics HTTP/1.1\r\nHost: 127.0.0.1:{server.port}") == 200
    assert await ask("GET /livez HTTP/1.1\r\nHost: evil.example") == 200


async def test_a_body_that_trickles_is_408_and_closed(tmp_path: Path) -> None:
    with start_server(tmp_path, env={"TARRY_BODY_TIMEOUT": "300ms"}) as slow, trio.fail_after(20):
        async with await trio.open_tcp_stream("127.0.0.1", slow.port) as stream:
            await stream.send_all(post("/v1/topics/orders/messages", b"[", 1000))
            async with trio.open_nursery() as nursery:

                async def trickle() -> None:
                    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                        while True:
                            await trio.sleep(0.1)
                            await stream.send_all(b" ")

                nursery.start_soon(trickle)
                answer = await answer_on(stream)
                nursery.cancel_scope.cancel()
        assert status_of(answer) == 408
        assert b"connection: close" in answer.lower()


async def test_many_unfinished_uploads_stay_within_their_limit(tmp_path: Path) -> None:
    """Sixty of 8 MiB, all but their last byte: the rest is refused with 503, and others are served meanwhile."""

    def resident(pid: int) -> int:
        (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) << 10

    with start_server(tmp_path, env={"TARRY_MAX_INCOMING": "32MiB"}) as full, trio.fail_after(60):
        before, refused = resident(full.pid), 0
        body = b'{"body": "' + b"x" * ((8 << 20) - 100)

        async def upload(task_status: trio.TaskStatus[None]) -> None:
            nonlocal refused
            async with await trio.open_tcp_stream("127.0.0.1", full.port) as stream:
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(post("/v1/topics/orders/messages", body, 8 << 20))
                    with trio.move_on_after(0.2):
                        answer = await stream.receive_some()
                        assert status_of(answer) == 503
                        assert b"retry-after: 1" in answer.lower()
                        refused += 1
                task_status.started()
                await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            for _ in range(60):
                await nursery.start(upload)
            async with httpx.AsyncClient(base_url=full.url) as client:
                answer = await client.post("/v1/topics/orders/messages", json={"body": "small"})
            assert answer.status_code == 201
            nursery.cancel_scope.cancel()
        assert refused >= 56
        assert resident(full.pid) - before < 100 << 20


@pytest.mark.parametrize("clients", [1, 8])
@pytest.mark.cases(1)
def test_a_stop_waits_for_no_publisher(tmp_path: Path, clients: int) -> None:
    acknowledged: set[str] = set()
    stopped = threading.Event()

    def publish() -> None:
        with httpx.Client(base_url=running.url) as client, suppress(httpx.TransportError):
            while not stopped.is_set():
                answer = client.post("/v1/topics/orders/messages", json={"body": "kept"})
                if answer.status_code == 201:
                    acknowledged.add(answer.json()["id"])

    with start_server(tmp_path) as running:
        threads = [threading.Thread(target=publish, daemon=True) for _ in range(clients)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(acknowledged) > 50 * clients)
        began = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - began < STOP_SECONDS
        stopped.set()
        for thread in threads:
            thread.join()
        running.start()
        stored: set[str] = set()
        with client_of(running) as tarry:
            while claim := tarry.claim("orders", "billing", max=1000):
                stored |= {message.id for message in claim.messages}
                tarry.ack(claim)
        assert acknowledged - stored == set()


def test_a_stop_ends_within_its_grace(tmp_path: Path) -> None:
    """A request whose body never comes is waited for, and cut in time for the last writes."""
    with (
        start_server(tmp_path, env={"TARRY_SHUTDOWN_GRACE": f"{STOP_SECONDS}s"}) as running,
        socket.create_connection(("127.0.0.1", running.port)) as client,
    ):
        client.sendall(post("/v1/topics/orders/messages", b"[", 1000))
        wait_until(lambda: httpx.get(f"{running.url}/livez").status_code == 200)
        began = time.monotonic()
        assert running.stop() == 0
        assert STOP_SECONDS / 2 < time.monotonic() - began < STOP_SECONDS


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with start_server(tmp_path) as running:
        with socket.create_connection(("127.0.0.1", running.port)) as client:
            client.sendall(post("/v1/topics/orders/messages", b"[", 1000))
            wait_until(lambda: httpx.get(f"{running.url}/livez").status_code == 200)
            pid = running.pid
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: '"stopping"' in running.tail())
            assert running.stop() == 128 + signal.SIGTERM
        assert "Traceback" not in running.tail(100_000)
        running.start()
