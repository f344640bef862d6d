"""The host's clock is set while a server runs on the embedded store: nothing is early, and it is told.

The server is a real process; a file says by how much its host's clock is off.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import attrs
import httpx
import pytest

from support.scripted_server import Answer, Request, scripted_server
from support.server import client_of, start_server
from support.waiting import paced, wait_until
from tarry.service.demo.server_process import ServerProcess, python_path

_SITE = """\
import pathlib, time
_file, _time_ns = pathlib.Path({file!r}), time.time_ns
time.time_ns = lambda: _time_ns() + int(_file.read_text()) * 10**9
time.time = lambda: time.time_ns() / 1e9
"""


@attrs.frozen
class Host:
    server: ServerProcess
    file: Path
    events: list[str]

    def set_clock(self, seconds: int) -> None:
        """How far it is ahead of the true time."""
        new = self.file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self.file)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    site, file = tmp_path / "site", tmp_path / "ahead"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_SITE.format(file=str(file)))
    file.write_text("0")
    events: list[str] = []

    def hear(request: Request) -> Answer:
        events.append(request.json["event"])
        return Answer(200, {})

    with scripted_server() as hook:
        hook.respond = hear
        path = ":".join([str(site), *python_path().values()])
        env = {"PYTHONPATH": path, "TARRY_ALARM_URL": hook.url}
        with start_server(tmp_path, env=env) as server:
            yield Host(server, file, events)


@pytest.mark.parametrize("step", [60, -60])
@pytest.mark.cases(1)
def test_a_host_whose_clock_is_set_hastens_and_delays_nothing(host: Host, step: int) -> None:
    url, seconds = host.server.url, paced(3)
    with client_of(host.server) as tarry:
        before = time.monotonic()
        for number in range(20):
            tarry.publish("orders", number, delay=timedelta(seconds=seconds))
        after = time.monotonic()
        host.set_clock(step)
        left = 20
        while left:
            claim = tarry.claim("orders", "billing", wait="30s", max=100)
            assert claim is not None, "late by more than the 60 s"
            now = time.monotonic()
            assert now - before >= seconds, f"{seconds - (now - before):.1f} s early"
            left -= len(claim.messages)
            tarry.ack(claim)
        assert time.monotonic() - after < seconds + 30, "as late as the clock was set back"
    wait_until(lambda: "host_clock_set" in host.events)
    ready = httpx.get(f"{url}/readyz?verbose")
    assert ready.status_code == 200
    (check,) = [check for check in ready.json()["checks"] if check["check"] == "host_clock"]
    assert not check["ok"]
    assert f"{'ahead' if step > 0 else 'back'} by 60.0 s" in check["detail"]
    metrics = httpx.get(f"{url}/metrics").text
    skew = next(line for line in metrics.splitlines() if line.startswith("tarry_clock_skew_seconds"))
    assert float(skew.split()[1]) == pytest.approx(-step, abs=1)
    assert host.server.tail(100_000).count('"host_clock_set"') == 1
