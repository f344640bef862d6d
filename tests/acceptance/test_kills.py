"""kill -9 at named points of publish, promote, claim, ack and fail: nothing is lost, nothing is early, no cancel lies.

A real server on a real store ends itself at the point; a supervisor starts it again without one. Meanwhile a producer
and two consumers work through the installed client, which hides the outage from them. Every message must reach its end,
and every hand-out beyond the first must have a reason: a fail, or the death of the server.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from support.in_turn import in_turn
from support.servers import free_port
from tarry.client import Message, Tarry
from tarry.client.errors import LeaseLost, NotFound, TooLate

POINTS = [
    ("delay.add_bare:after", 2),
    ("delay.add_bare:commit", 2),
    ("delay.add_bare:committed", 2),
    ("message.add_bare:after", 3),
    ("message.add_bare:committed", 3),
    ("delay.lock_due:after", 4),
    ("message.promote:after", 3),
    ("delay.remove:commit", 3),
    ("delay.remove:committed", 3),
    ("cancelled.add:commit", 3),
    ("cancelled.add:committed", 3),
    ("claim.add:commit", 3),
    ("claim.add:committed", 3),
    ("delivery.add:commit", 3),
    ("delivery.add:committed", 3),
    ("retry.add:commit", 2),
    ("retry.add:committed", 2),
    ("redelivery.add:after", 1),
    ("redelivery.add:committed", 1),
]
ROOT = Path(__file__).parents[2]
LADDER = "100ms,200ms,300ms,400ms"
NOW, LATER, CANCELLED = 30, 60, 20


@define
class Supervisor:
    """Keeps one server running: with a point at which it dies, and after that without."""

    dsn: str
    listen: str
    log: Path
    point: str
    times: int
    died: int = 0
    _stopping: bool = False
    _process: "subprocess.Popen[bytes] | None" = None

    def run(self) -> None:
        """Starts it, and again when it has died."""
        command = ["-P", "-m", "tarry.bench.killing", self.point, str(self.times)]
        while not self._stopping:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, *command, "serve", "--dsn", self.dsn, "--listen", self.listen],
                    env={**os.environ, "PYTHONPATH": str(ROOT / ".tree"), "TARRY_LADDER": LADDER},
                    stdout=log,
                    stderr=log,
                )
            code = self._process.wait()
            if not self._stopping:
                assert code == -9, f"the server ended with {code}: {self.log.read_text()}"
                self.died += 1
                command[3:] = ["none", "1"]

    def stop(self) -> None:
        """SIGTERM, and exit code 0."""
        self._stopping = True
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(25) == 0, self.log.read_text()


@define
class Ledger:
    """What was asked for and what came."""

    expected: dict[str, float] = field(factory=dict[str, float])
    """The earliest time of each message that must arrive, by its name."""
    cancelled: set[str] = field(factory=set[str])
    seen: dict[str, list[tuple[int, float]]] = field(factory=dict[str, list[tuple[int, float]]])
    """(attempt, time) of each hand-out."""
    acked: dict[str, int] = field(factory=dict[str, int])
    lock: threading.Lock = field(factory=threading.Lock)


@contextmanager
def running(target: object) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=target)  # type: ignore[arg-type]  # a bound method without arguments
    thread.start()
    try:
        yield thread
    finally:
        thread.join(30)


def produce(tarry: Tarry, ledger: Ledger) -> None:
    """Publishes now and later, cancels some, each name once."""
    began = time.time()
    for number in range(NOW):
        name = f"now-{number}"
        tarry.publish("orders", name)
        ledger.expected[name] = 0
    ids: list[tuple[str, str]] = []
    for start in range(0, LATER, 20):
        drafts: list[dict[str, Any]] = []
        for number in range(start, start + 20):
            due = began + 0.3 + 0.04 * number
            name = f"later-{number}"
            ledger.expected[name] = due
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(due)) + f".{int(due * 1000) % 1000:03}Z"
            drafts.append({"body": name, "deliver_at": stamp})
        receipts = tarry.publish_many("orders", drafts)
        ids += [(draft["body"], receipt.id) for draft, receipt in zip(drafts, receipts, strict=True)]
    for name, id_ in ids[-CANCELLED:]:
        try:
            tarry.cancel(id_)
        except TooLate:
            continue
        ledger.expected.pop(name)
        ledger.cancelled.add(name)


def consume(tarry: Tarry, ledger: Ledger, stop: threading.Event) -> None:
    """Claims, fails every fifth message once, acks the rest."""
    while not stop.is_set():
        claim = tarry.claim("orders", "billing", max=5, wait="200ms", lease="2s")
        if claim is None:
            continue
        good: list[Message] = []
        bad: list[Message] = []
        with ledger.lock:
            for message in claim.messages:
                ledger.seen.setdefault(message.body, []).append((message.attempt, time.time()))
                (bad if message.attempt == 1 and message.body.endswith(("0", "5")) else good).append(message)
        try:
            if bad:
                tarry.fail(claim, [message.id for message in bad], reason="not today")
            if good:
                tarry.ack(claim, [message.id for message in good])
        except (LeaseLost, NotFound):
            continue  # it comes back
        with ledger.lock:
            for message in good:
                ledger.acked[message.body] = ledger.acked.get(message.body, 0) + 1


@pytest.mark.parametrize(("dsn", "point", "times"), in_turn(*POINTS), indirect=["dsn"])
@pytest.mark.cases(6)
def test_nothing_is_lost_and_nothing_is_early(dsn: str, point: str, times: int, tmp_path: Path) -> None:
    port = free_port()
    supervisor = Supervisor(dsn, f"127.0.0.1:{port}", tmp_path / "server.log", point, times)
    ledger, stop = Ledger(), threading.Event()
    with running(supervisor.run), Tarry(f"http://127.0.0.1:{port}") as tarry:
        try:
            tarry.publish("orders", "first")
            ledger.expected["first"] = 0
            with (
                running(lambda: consume(tarry, ledger, stop)),
                running(lambda: consume(tarry, ledger, stop)),
            ):
                try:
                    produce(tarry, ledger)
                    deadline = time.monotonic() + 30
                    while set(ledger.acked) < set(ledger.expected) and time.monotonic() < deadline:
                        stop.wait(0.05)
                finally:
                    stop.set()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/topics/orders/groups/billing") as answer:
                group = json.load(answer)
        finally:
            supervisor.stop()
    assert supervisor.died == 1, f"{point} was never reached"
    assert set(ledger.acked) == set(ledger.expected), "lost"
    assert not ledger.cancelled & set(ledger.seen), "cancelled and delivered"
    early = {name: at for name, due in ledger.expected.items() if (at := ledger.seen[name][0][1]) < due}
    assert not early
    for name, seen in ledger.seen.items():
        attempts = [attempt for attempt, _ in seen]
        assert attempts == sorted(attempts), f"{name} went back in time: {attempts}"
        assert attempts[0] <= 2, "the answer to the first claim may have died with the server, no other"
    assert group["backlog"] == 0
    assert group["dead"] == 0
