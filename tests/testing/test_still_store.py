"""A store that can be held still: time is moved when nothing is asked of it, and nothing is begun meanwhile."""

from collections.abc import Callable

import pytest
import trio

from tarry.client.outbox import moved
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.ports import Transaction
from tarry.testing.still_store import StillStore


async def _work(_: Transaction) -> int:
    return 7


async def test_what_is_under_way_ends_first_and_what_comes_waits(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Whatever is asked, in any order: the moment of the change is between."""
    at_work = 0
    seen: list[int] = []

    async def ask(*_: object, **__: object) -> int:
        nonlocal at_work
        at_work += 1
        await trio.sleep(1)
        at_work -= 1
        return 7

    for name in ("write", "read", "note", "now", "exact_now"):
        monkeypatch.setattr(MySQLBackend, name, ask)
    store = StillStore("mysql://root@localhost/x")
    steps: list[Callable[[], object]] = [
        lambda: store.write(_work),
        lambda: store.read(_work),
        lambda: store.note(_work),
        store.now,
        store.exact_now,
    ]

    async def often(step: Callable[[], object], rest: float) -> None:
        await trio.sleep(rest)
        for _ in range(5):
            assert await step() == 7  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
            await trio.sleep(rest)

    async with trio.open_nursery() as nursery:
        for number, step in enumerate(steps):
            nursery.start_soon(often, step, number / 10)
        for rest in (0.05, 1.3, 1.4, 3.0):
            nursery.start_soon(_later, rest, store, lambda: seen.append(at_work))
    assert seen == [0, 0, 0, 0]


async def _later(rest: float, store: StillStore, change: Callable[[], None]) -> None:
    await trio.sleep(rest)
    await store.between(change)


async def test_what_lasts_is_waited_for_so_long_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async def for_ever(*_: object, **__: object) -> int:
        await trio.sleep_forever()
        return 7

    monkeypatch.setattr(MySQLBackend, "read", for_ever)
    store = StillStore("mysql://root@localhost/x")
    changed: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.read, _work)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await store.between(lambda: changed.append(trio.current_time() - began))
        nursery.cancel_scope.cancel()
    assert changed == [5.0]


def test_a_database_has_the_time_that_is_said_of_it_within_the_block_alone() -> None:
    def fail() -> None:
        with moved.moved("Shop_1", lambda: 5), moved.moved("other", lambda: 7):
            assert (moved.ahead_of("shop_1"), moved.ahead_of("OTHER"), moved.ahead_of("")) == (5, 7, 0)
            with pytest.raises(ValueError, match=r"dsn: .*'shop_1' already"), moved.moved("shop_1", lambda: 6):
                pass
            assert moved.ahead_of("Shop_1") == 5
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not moved.is_anywhere()
    assert moved.ahead_of("shop_1") == 0
