"""As systemd runs it: ready when it listens and is loaded, a sign of life of each loop, a word at the end. The unit."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from attrs import define, field

from support.serving import Served, served
from support.waiting import wait_until
from tarry.service.demo.server_process import free_port

UNIT = Path(__file__).parents[2] / "docs" / "operations" / "tarry.service"


@define
class Manager:
    """The part of systemd: a datagram socket, and what was said to it."""

    inbox: socket.socket
    said: list[str] = field(factory=list[str])

    def until(self, word: str) -> None:
        """It comes within the time-out of the socket, and within a minute, whatever else comes."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            came = self.inbox.recv(4096).decode().splitlines()
            self.said += came
            if word in came:
                return
        raise TimeoutError(f"no {word}, but {self.said[-5:]}")

    def is_silent(self, seconds: float) -> bool:
        """Nothing is said for so long, what is on its way left aside."""
        self.inbox.setblocking(False)
        try:
            while True:
                self.said += self.inbox.recv(4096).decode().splitlines()
        except BlockingIOError:
            pass
        self.inbox.settimeout(seconds)
        try:
            self.said += self.inbox.recv(4096).decode().splitlines()
        except TimeoutError:
            return True
        finally:
            self.inbox.settimeout(30)
        return False


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(str(tmp_path / "notify"))
        inbox.settimeout(30)
        yield Manager(inbox)


def begin(server: Served, manager: Manager, port: int, *flags: str) -> None:
    server.environment |= {"NOTIFY_SOCKET": str(manager.inbox.getsockname()), "WATCHDOG_USEC": "600000"}
    server.start("--listen", f"127.0.0.1:{port}", "--log-format", "json", *flags)


def test_one_process(manager: Manager, tmp_path: Path) -> None:
    port = free_port()
    with served(tmp_path) as server:
        begin(server, manager, port)
        manager.until("READY=1")
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        assert '"recovered"' in server.log
        manager.until("WATCHDOG=1")
        server.process.send_signal(signal.SIGSTOP)
        assert manager.is_silent(0.6)
        server.process.send_signal(signal.SIGCONT)
        manager.until("WATCHDOG=1")
        assert "STOPPING=1" not in manager.said
        assert server.stop() == 0
        manager.until("STOPPING=1")
        assert manager.said.count("READY=1") == 1


def test_a_store_that_is_away_is_not_ready(manager: Manager, tmp_path: Path) -> None:
    """It lives, and is not ready: systemd goes on waiting for it."""
    with served(tmp_path) as server:
        server.environment |= {"NOTIFY_SOCKET": str(manager.inbox.getsockname()), "WATCHDOG_USEC": "60000"}
        command = [sys.executable, "-m", "tarry.service.cli.app", "serve", "--listen", f"127.0.0.1:{free_port()}"]
        command += ["--dsn", f"mysql://tarry@127.0.0.1:{free_port()}/tarry"]
        process = subprocess.Popen(command, cwd=tmp_path, env=server.environment, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            while "store_away" not in process.stderr.readline():
                assert process.poll() is None
            for _ in range(20):
                manager.until("WATCHDOG=1")
            assert "READY=1" not in manager.said
        finally:
            process.kill()
            process.communicate()


def test_several_processes(
    manager: Manager, tmp_path: Path, request: pytest.FixtureRequest, fresh_database: Callable[[str], str]
) -> None:
    """The supervisor speaks for all: while the loop of one of them stands still, it gives no sign of life."""
    dsn = fresh_database(request.getfixturevalue("mariadb_server"))
    port = free_port()
    with served(tmp_path) as server:
        begin(server, manager, port, "--dsn", dsn, "--processes", "2")
        manager.until("READY=1")
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        # The first is enough for READY, and for a sign of life: the second may not even be in the log yet.
        wait_until(lambda: server.log.count('"recovered"') == 2)
        pids = [int(pid) for pid in re.findall(r'"pid": ?(\d+)', server.log)]
        assert len(pids) == 2
        manager.until("WATCHDOG=1")
        os.kill(pids[1], signal.SIGSTOP)
        wait_until(lambda: manager.is_silent(0.6))
        os.kill(pids[1], signal.SIGCONT)
        manager.until("WATCHDOG=1")
        assert server.stop() == 0
        manager.until("STOPPING=1")
        assert manager.said.count("READY=1") == manager.said.count("STOPPING=1") == 1


def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    text = UNIT.read_text("utf-8")
    for line in ("Type=notify", "WatchdogSec=30", "KillMode=mixed", "NoNewPrivileges=yes", "ProtectSystem=strict"):
        assert f"\n{line}\n" in text
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on PATH")
    unit = tmp_path / "tarry.service"
    unit.write_text(text.replace("/opt/tarry/bin/tarry", sys.executable))
    verified = _analyze("verify", "--man=no", str(unit))
    assert verified == "", verified
    exposure = _analyze("security", "--offline=true", "--no-pager", str(unit))
    (level,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", exposure)
    assert float(level) < 2.5, exposure


def _analyze(*arguments: str) -> str:
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
