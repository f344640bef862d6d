"""`tarry demo`: replays a real day of flights through a real server, which is killed once; takes about 40 s."""

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from attrs import asdict, define, field
from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...client import Tarry
from ...client.errors import TarryError
from ...store.printable import print_table
from ..cli.printing import note, print_json, print_line
from .flights import load_day
from .ledger import Lateness, Ledger
from .replay import GROUP, LEASE, TOPIC, Announcer, Squeeze, now, schedule_day, work
from .server_process import ServerFailed, ServerProcess

DAY_MS = 30_000
LEAD_MS = 2_000
"""Time between the scheduling and the first departure."""
KILL_AFTER_MS = 12_000
LIMIT_SECONDS = 55.0
"""A flight whose end is not seen by then counts as lost."""
RUNGS = tuple(range(50, 450, 25))
"""A compressed ladder: 16 rungs in 3.8 s."""
ANNOUNCERS, CONSUMERS, WORKERS = 6, 2, 4


def demo(*, json: Annotated[bool, Parameter(negative=(), help="Print the result as one JSON object.")] = False) -> int:
    """Replay a day of flights on its own server; check the counts.

    The server is killed in the middle. Everything happens in a temporary folder and on a free port. Exit code 1 when a
    count is wrong.
    """
    with _quietly(), TemporaryDirectory(prefix="tarry-demo-") as folder:
        ladder = ",".join(f"{rung}ms" for rung in RUNGS)
        environment = {"TARRY_LADDER": ladder}
        server = ServerProcess(Path(folder), f"sqlite:///{folder}/tarry.db", environment=environment)
        try:
            show = Show(server)
            show.run()
            code = server.stop()
            if code != 0:
                show.faults.append(f"the server ended with {code} when it was asked to")
        except (ServerFailed, TarryError) as error:
            note(f"tarry: {error}")
            if isinstance(error, TarryError):
                note(server.tail())
            return 1
        finally:
            server.kill()
        if show.faults:
            _tell_faults(show.faults, server)
    show.print(json)
    return int(bool(show.faults))


def _tell_faults(faults: list[str], server: ServerProcess) -> None:
    for fault in faults[:50]:
        note(f"wrong: {fault}")
    if len(faults) > 50:
        note(f"... and {len(faults) - 50} more")
    note(f"The server's last words:\n{server.tail()}")


@define
class Show:
    server: ServerProcess
    faults: list[str] = field(factory=list[str])
    counts: dict[str, int] = field(factory=dict[str, int])
    lateness: tuple[Lateness, Lateness] = (Lateness.of([]), Lateness.of([]))
    away_ms: int = 0
    seconds: float = 0.0
    _errors: list[BaseException] = field(factory=list[BaseException])

    def run(self) -> None:
        started = time.monotonic()
        day = load_day()
        with _progress(len(day)) as report, Tarry(self.server.url) as tarry:
            report("starting the server", 0)
            self.server.start()
            squeeze = Squeeze.over(day, now() + LEAD_MS, DAY_MS)
            report("scheduling", 0)
            ledger = Ledger(schedule_day(tarry, day, squeeze, len(RUNGS)), RUNGS)
            stop = threading.Event()
            try:
                threads = self._hire(tarry, ledger, squeeze, stop)
                apart = self._watch(ledger, squeeze.begins, started + LIMIT_SECONDS, report)
            finally:
                stop.set()
            for thread in threads:
                thread.join()
            if self._errors:
                raise self._errors[0]
            self._count(tarry, ledger, apart)
        self.seconds = time.monotonic() - started

    def _hire(self, tarry: Tarry, ledger: Ledger, squeeze: Squeeze, stop: threading.Event) -> list[threading.Thread]:
        def consume() -> None:
            work(tarry, ledger, WORKERS, stop)

        announcer = Announcer(tarry, ledger, squeeze, stop)
        jobs = [*[announcer.run] * ANNOUNCERS, *[consume] * CONSUMERS]
        threads = [threading.Thread(target=self._guard, args=(job,), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        return threads

    def _guard(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # raised in the main thread instead
            self._errors.append(error)

    def _watch(self, ledger: Ledger, begins: int, limit: float, report: Callable[[str, int], None]) -> tuple[int, int]:
        """Waits until every flight's end was seen, and kills the server once; returns the time span around the kill."""
        killed = ready = 0
        total = len(ledger.entries)
        while (left := ledger.open()) and time.monotonic() < limit and not self._errors:
            report("departures", total - left)
            if not killed and now() >= begins + KILL_AFTER_MS:
                report("the server is killed, and started again", total - left)
                killed = now()
                self.server.kill()
                self.server.start()
                ready = now()
                self.away_ms = ready - killed
            time.sleep(0.05)
        report("the last count", total - ledger.open())
        time.sleep(0.5)  # a message that arrives now was delivered once too often
        return killed - 250, ready + 750

    def _count(self, tarry: Tarry, ledger: Ledger, apart: tuple[int, int]) -> None:
        ledger.bury(letter.message.id for letter in tarry.dead(TOPIC, GROUP))
        self.faults += ledger.faults(doubtful_until=apart[1] + LEASE // timedelta(milliseconds=1))
        for entry in ledger.entries:
            if entry.fate == "cancelled" and (state := tarry.message(entry.id)["state"]) != "cancelled":
                self.faults.append(f"{entry.flight.key}: cancelled, and the server says {state}")
        self.counts = ledger.counts()
        self._compare(tarry.topic(TOPIC), tarry.group(TOPIC, GROUP))
        self.lateness = ledger.lateness(apart)

    def _compare(self, topic: dict[str, Any], group: dict[str, Any]) -> None:
        """Compares the server's own counters, which had to survive the kill, with the ledger."""
        counts = self.counts
        pairs = (
            ("accepted", topic["accepted"], counts["published"]),
            ("cancelled", topic["cancelled"], counts["cancelled"]),
            ("streamed", topic["streamed"], counts["published"] - counts["cancelled"]),
            ("dead", group["dead"], counts["dead"]),
            ("backlog", group["backlog"], 0),
            ("claimed", group["claimed"], 0),
            ("resting", sum(group["retries"]), 0),
        )
        for name, says, saw in pairs:
            if says != saw:
                self.faults.append(f"the server counts {says} {name}, and there were {saw}")

    def print(self, json: bool) -> None:
        if json:
            print_json(self._result())
            return
        rows: list[tuple[str, object]] = [
            (name.replace("_", " "), self.counts.get(name, 0)) for name in _SHOWN if name in self.counts
        ]
        steady, around = self.lateness
        rows += [
            ("lateness p50 / p99 / max", f"{steady.p50} / {steady.p99} / {steady.max} ms"),
            (f"  of {around.count} due around the kill", f"{around.p50} / {around.p99} / {around.max} ms"),
            ("server away", f"{self.away_ms} ms"),
        ]
        print_table(("flights of 2013-11-27", ">"), rows)
        print_line("Every count is right." if not self.faults else f"{len(self.faults)} things are wrong.")

    def _result(self) -> dict[str, Any]:
        steady, around = self.lateness
        return {
            **self.counts,
            "lateness_ms": asdict(steady),
            "lateness_around_kill_ms": asdict(around),
            "away_ms": self.away_ms,
            "seconds": round(self.seconds, 1),
            "wrong": self.faults,
        }


_SHOWN = (
    "published",
    "rescheduled",
    "delivered",
    "cancelled",
    "too_late",
    "retried",
    "dead",
    "redelivered",
    "early",
    "lost",
)


@contextmanager
def _progress(total: int) -> Generator[Callable[[str, int], None], None, None]:
    """Shows progress: a bar on a terminal, elsewhere a line for each new step."""
    console = Console(stderr=True)
    if not console.is_terminal:
        said: list[str] = []

        def say(doing: str, done: int) -> None:
            if doing not in said:
                said.append(doing)
                note(f"{doing} ({done} of {total} flights are through)")

        yield say
        return
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=total)
        yield lambda doing, done: progress.update(task, description=doing, completed=done)


@contextmanager
def _quietly() -> Generator[None, None, None]:
    """Silences the client's log, since the demo fails handlers on purpose."""
    log = logging.getLogger("tarry.client")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
