"""What the log says of a store that goes away and comes back."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.hand_time import HandSeconds
from tarry.service.outages import Outage, tell_failure
from tarry.store.errors import Contention, DuplicateKey, Locked, OutcomeUnknown, StoreError, Unavailable
from tarry.store.ports import Transaction
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store

GONE = Unavailable("connection refused", 2003)


@pytest.fixture
def time() -> HandSeconds:
    return HandSeconds()


@pytest.fixture
def outage(time: HandSeconds) -> Outage:
    return Outage(lambda error: None, time)


def told(logs: list[Any]) -> list[tuple[str, float | None]]:
    return [(entry["event"], entry.get("seconds")) for entry in logs]


def test_an_hour_away_is_a_handful_of_lines(outage: Outage, time: HandSeconds) -> None:
    with capture_logs() as logs:
        outage.answered("read")
        for _ in range(36_000):
            outage.failed("read", GONE)
            outage.failed("write", GONE)
            time.now += 0.1
        outage.answered("read")
        outage.answered("write")
    events = told(logs)
    assert events[0] == ("store_away", None)
    assert logs[0]["error"] == "connection refused"
    reminded = [seconds for event, seconds in events if event == "store_still_away"]
    assert reminded == pytest.approx([10 * 2**n for n in range(9)], rel=0.02)
    assert events[-1] == ("store_back", 3600.0)
    assert logs[-1]["failures"] == 72_000
    assert len(events) == 11


def test_each_absence_has_its_lines(outage: Outage, time: HandSeconds) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            outage.failed("read", GONE)
            time.now += 1
            outage.answered("read")
    assert told(logs) == [("store_away", None), ("store_back", 1.0)] * 3


def test_a_store_that_can_be_read_and_not_written_is_not_back(outage: Outage, time: HandSeconds) -> None:
    with capture_logs() as logs:
        outage.failed("write", GONE)
        for _ in range(50):
            outage.answered("read")
            time.now += 0.1
            outage.failed("write", GONE)
        outage.answered("write")
    assert told(logs) == [("store_away", None), ("store_back", 5.0)]


def test_who_failed_because_of_it_says_so_to_the_debugging_log() -> None:
    with capture_logs() as logs:
        tell_failure("round_failed", GONE, step="near")
        tell_failure("round_failed", Contention("a deadlock"), step="near")
    assert [(entry["event"], entry["log_level"], entry["error"]) for entry in logs] == [
        ("round_failed", "debug", "connection refused"),
        ("round_failed", "warning", "a deadlock"),
    ]


@pytest.mark.parametrize("error", [GONE, Locked("held"), OutcomeUnknown("cut"), DuplicateKey("there")])
async def test_what_the_store_could_not_do_is_counted_once(tmp_path: Path, error: StoreError) -> None:
    """Whatever asked for it; but for a key that was taken: the same is done under another."""
    counted: list[str] = []
    backend = SQLiteBackend(tmp_path / "tarry.db")
    store = Store(backend, watch=Outage(counted.append).watch)

    async def work(tx: Transaction) -> None:
        raise error

    await backend.migrate()
    for ask in (store.read, store.write):
        with pytest.raises(type(error)), capture_logs() as logs:
            await ask(work)
        assert ("outcome_unknown" in {line["event"] for line in logs}) == isinstance(error, OutcomeUnknown)
    await backend.aclose()
    assert counted == ([] if isinstance(error, DuplicateKey) else [type(error).__name__] * 2)
