"""What systemd hears, on a real datagram socket."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio
import trio.testing

from tarry.service.lifecycle import Lifecycle
from tarry.service.serve import _tell_ready
from tarry.service.systemd import Systemd


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(str(tmp_path / "notify"))
        inbox.settimeout(10)
        yield inbox


def heard(inbox: socket.socket) -> list[str]:
    """What came so far."""
    inbox.setblocking(False)
    said: list[str] = []
    try:
        while True:
            said += inbox.recv(4096).decode().splitlines()
    except BlockingIOError:
        return said
    finally:
        inbox.settimeout(10)


def test_what_the_environment_says() -> None:
    environment = {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7", "HOME": "/"}
    systemd = Systemd.of(environment, 7)
    assert (systemd.address, systemd.patience, systemd.rest) == ("/run/n", 3.0, 1.0)
    assert environment == {"HOME": "/"}, "what this program starts is not systemd's"
    assert Systemd.of({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "8"}, 7).patience is None
    assert Systemd.of({"WATCHDOG_USEC": "3000000"}, 7).patience is None
    assert Systemd.of({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "x"}, 7).patience is None


def test_words(inbox: socket.socket) -> None:
    systemd = Systemd(inbox.getsockname())
    systemd.ready()
    systemd.stopping()
    systemd.alive()
    assert [line for line in heard(inbox) if not line.startswith("STATUS")] == ["READY=1", "STOPPING=1", "WATCHDOG=1"]


async def test_a_server_is_ready_when_its_timers_are_in_memory(inbox: socket.socket) -> None:
    """Not when its store has answered."""
    opened, recovered = trio.Event(), trio.Event()
    loading = SimpleNamespace(ready=opened, node=SimpleNamespace(loader=SimpleNamespace(recovered=recovered)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_tell_ready, cast(Lifecycle, loading), Systemd(inbox.getsockname()))
        for event in (opened, recovered):
            await trio.testing.wait_all_tasks_blocked()
            assert heard(inbox) == []
            event.set()
    assert "READY=1" in heard(inbox)


def test_a_name_in_no_folder() -> None:
    name = f"tarry-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(f"\0{name}")
        Systemd(f"@{name}").alive()
        assert heard(inbox) == ["WATCHDOG=1"]


def test_nobody_waits_for_systemd(inbox: socket.socket, tmp_path: Path) -> None:
    Systemd().ready()
    Systemd(str(tmp_path / "nobody")).ready()
    full = Systemd(inbox.getsockname())
    for _ in range(10_000):  # more than there is room for
        full.alive()
    assert 0 < len(heard(inbox)) < 10_000


def test_a_loop_that_hangs_gives_no_sign_of_life(inbox: socket.socket) -> None:
    """The loop waits for something that blocks, as a careless call would have it wait."""
    systemd = Systemd(inbox.getsockname(), patience=0.03)
    reads, writes = os.pipe()
    counts: list[int] = []

    def watch() -> None:
        for _ in range(3):
            inbox.recv(100)
        counts.append(3)
        os.write(writes, b"now hang")
        hanging.wait(10)
        heard(inbox)
        inbox.settimeout(0.2)  # six signs of a loop that goes on
        try:
            counts.append(len(inbox.recv(100)))
        except TimeoutError:
            counts.append(0)
        inbox.settimeout(10)
        os.write(writes, b"go on")
        counts.append(len(inbox.recv(100)))

    hanging = threading.Event()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(systemd.run)
            await trio.lowlevel.wait_readable(reads)
            os.read(reads, 100)
            hanging.set()
            os.read(reads, 100)  # hangs
            await trio.to_thread.run_sync(watcher.join)
            nursery.cancel_scope.cancel()

    watcher = threading.Thread(target=watch)
    watcher.start()
    trio.run(main)
    os.close(reads)
    os.close(writes)
    assert counts == [3, 0, len("WATCHDOG=1")]
