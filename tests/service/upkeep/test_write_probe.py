"""Whether the store takes writes, told to whoever asks, and once to whoever should know."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from support.failing import failing
from support.ringing import Rung
from tarry.service.clock import Clock
from tarry.service.outages import Outage
from tarry.service.upkeep.write_probe import STANDS, WriteProbe
from tarry.store.errors import (
    Denied,
    DuplicateKey,
    Full,
    Locked,
    OutcomeUnknown,
    Refused,
    StoreError,
    Unavailable,
    Unfit,
)
from tarry.store.ports import Transaction
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store

FULL = Unavailable("disk full")


class House:
    """A store, and a clock that is moved by hand."""

    def __init__(self, path: Path) -> None:
        self.seconds = 100.0
        self.counted: list[str] = []
        self.alarm = Rung()
        self.outage = Outage(self.counted.append, lambda: self.seconds)
        self.store = Store(SQLiteBackend(path), watch=self.outage.watch)
        clock = Clock(self.store.exact_now)
        self.clock = clock
        self.probe = WriteProbe(self.store, self.outage, clock, self.alarm, lambda: self.seconds)

    async def write(self, error: StoreError | None = None) -> None:
        async def work(tx: Transaction) -> None:
            if error is not None:
                raise error

        if error is None:
            await self.store.write(work)
        else:
            with pytest.raises(type(error)):
                await self.store.write(work)

    def under_way(self) -> AbstractContextManager[None]:
        """A write that has no answer yet."""
        return self.outage.watch("write")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path / "tarry.db")
    await house.store.backend.migrate()
    await house.clock.take()
    yield house
    await house.store.backend.aclose()


@pytest.mark.parametrize("error", [FULL, Full("full"), OutcomeUnknown("lost"), Denied("no INSERT")])
async def test_the_last_write_counts_until_one_was_rehearsed(house: House, error: StoreError) -> None:
    assert house.probe.wrong is None
    await house.write(error)
    assert house.probe.wrong == f"the last write was refused: {error}"
    await house.write()
    assert house.probe.wrong is not None, "it may be one of those that a full disk takes"
    await house.probe._try()
    assert house.probe.wrong is None


@pytest.mark.parametrize("error", [Refused("too long"), DuplicateKey("there"), Locked("held"), StoreError("other")])
async def test_what_may_be_its_callers_fault_says_nothing(house: House, error: StoreError) -> None:
    await house.write(error)
    assert house.probe.wrong is None
    await house.probe._try()
    assert house.probe.wrong is None


async def test_a_lock_is_everybodys_when_a_rehearsal_meets_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.probe._try()
    await house.write(Locked("held"))
    with monkeypatch.context() as patched:
        patched.setattr(house.store.backend, "write", failing(Locked("held")))
        await house.probe._try()
        assert house.probe.wrong == "the last write was refused: held"
        await house.probe._try()
        assert house.probe.wrong is not None
    await house.probe._try()
    assert house.probe.wrong is None


async def test_what_the_database_is_not_fit_for_is_rehearsed_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.probe._try()
    await house.write(Unfit("too long for it"))
    assert house.outage.hurry.is_set()
    await house.probe._try()
    assert house.probe.wrong is None, "it was that one's"
    await house.write(Unfit("a trigger says no"))
    with monkeypatch.context() as patched:
        patched.setattr(house.store.backend, "write", failing(Unfit("a trigger says no")))
        await house.probe._try()
    assert house.probe.wrong == "the last write was refused: a trigger says no"
    await house.probe._try()
    assert house.probe.wrong is None


async def test_one_that_stands_is_told_once_and_that_it_goes_on(house: House) -> None:
    with capture_logs() as logs:
        with house.under_way():
            for _ in range(4):
                house.seconds += 1
                await house.probe.look()
            assert (house.probe.wrong, logs) == (None, [])
            with house.under_way():  # others beside it come and go
                house.seconds += 1
            for _ in range(5):
                await house.probe.look()
                house.seconds += 1
            assert "no answer for 10 s" in (house.probe.wrong or "")
        assert house.probe.wrong is None
        for _ in range(3):
            await house.probe.look()
    told = [(one["event"], one["seconds"]) for one in logs]
    assert told == [("store_takes_no_writes", 5.0), ("store_takes_writes", 10.0)]
    assert house.alarm.events == ["store_takes_no_writes", "store_takes_writes"]
    assert house.counted == ["Standing"] * 5


async def test_what_is_over_soon_is_told_to_who_asks_alone(house: House) -> None:
    with capture_logs() as logs:
        await house.write(FULL)
        house.seconds += STANDS - 0.1
        await house.probe.look()
        house.seconds += STANDS - 0.1
        await house.probe._try()
        await house.probe.look()
        await house.write(FULL)
        house.seconds += STANDS - 0.1
        await house.probe.look()
    assert house.alarm.events == []
    assert "store_takes_no_writes" not in [one["event"] for one in logs]


async def test_what_lasts_is_told_though_nobody_writes(house: House) -> None:
    await house.write(FULL)
    for _ in range(7):
        await house.probe.look()
        house.seconds += 1
    assert house.alarm.events == ["store_takes_no_writes"]
    await house.probe._try()
    await house.probe.look()
    assert house.alarm.events == ["store_takes_no_writes", "store_takes_writes"]
