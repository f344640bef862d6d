"""A crowd at the front door of a real server: those who say nothing, or too little, keep nobody else out."""

import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from support.server import start_server
from support.waiting import wait_until
from tarry.service.demo.server_process import ServerProcess

IDLE, SLOW_HEADS, SLOW_BODIES = 2000, 300, 100
OWN = 10
"""Descriptors that come and go with the server's own work, and with who asks whether it is ready."""


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    """For this side of so many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + SLOW_HEADS + SLOW_BODIES + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the system allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


Connect = Callable[..., list[socket.socket]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes so many connections, on each of which this is said; all are closed at the end."""
    with ExitStack() as stack:

        def connected(port: int, count: int, first: bytes = b"") -> list[socket.socket]:
            found: list[socket.socket] = []
            for _ in range(count):
                one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                one.sendall(first)
                found.append(one)
            return found

        yield connected


def descriptors_of(server: ServerProcess) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def test_a_crowd_that_says_too_little_keeps_nobody_out(tmp_path: Path, connect: Connect) -> None:
    head = b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
    with start_server(tmp_path, env={"TARRY_BODY_TIMEOUT": "1h"}) as server:
        before = descriptors_of(server)
        crowd = connect(server.port, IDLE)
        crowd += connect(server.port, SLOW_HEADS, head)
        crowd += connect(server.port, SLOW_BODIES, head + b"\r\n{")
        wait_until(lambda: descriptors_of(server) >= before + len(crowd) - OWN)
        with httpx.Client(base_url=server.url, timeout=20) as client:
            for number in range(50):
                for one in crowd[IDLE : IDLE + SLOW_HEADS]:
                    one.sendall(b"X")  # a letter of a header's name, again and again
                assert client.get("/livez").status_code == 200
                assert client.post("/v1/topics/orders/messages", json={"body": number}).status_code == 201
        for one in crowd:
            one.close()
        wait_until(lambda: descriptors_of(server) <= before + OWN)
        assert "Traceback" not in server.tail(1 << 20)


@pytest.fixture
def small_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """One that `ulimit -n 256` leaves few descriptors."""
    few = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
    server = ServerProcess(tmp_path, f"sqlite:///{tmp_path}/tarry.db", within=few)
    try:
        server.start()
        yield server
        assert server.stop() == 0
    finally:
        server.kill()


def test_with_few_descriptors_it_says_no_and_goes_on(small_server: ServerProcess, connect: Connect) -> None:
    crowd = connect(small_server.port, 400)
    answers: list[bytes] = []
    for one in crowd:
        with suppress(OSError):
            one.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            one.settimeout(3)
            answers.append(one.recv(12))
        if len(answers) > 100:
            break
    assert {b"HTTP/1.1 200", b"HTTP/1.1 503"} == set(answers)
    for one in crowd:
        one.close()
    wait_until(lambda: httpx.get(f"{small_server.url}/livez").status_code == 200)
    assert "Traceback" not in small_server.tail(1 << 20)
