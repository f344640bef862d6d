"""A store that is away during the start is waited for, at whatever statement it went; then all is as it should be."""

import shutil
from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tarry.service import rounds
from tarry.service.engine.dispatch import loader as loader_module
from tarry.service.lifecycle import Lifecycle
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.settings import Settings
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Contention, StoreError, Unavailable
from tarry.store.groups import clients
from tarry.store.ports import Bound
from tarry.store.records import ClaimRequest, Draft, Publication
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.sqlite.connection import SQLiteTransaction
from tarry.store.store import Store
from tarry.wheel.ladder import Ladder

LAST = 400
"""More statements than a start has."""


class Faults:
    """The store fails at one of the things it is asked, and the one after that: each statement is counted."""

    def __init__(self) -> None:
        self.asked = 0
        self.at: set[int] = set()
        self.error: type[StoreError] = Unavailable
        self.met: list[str] = []

    def meet(self, what: str) -> None:
        self.asked += 1
        if self.asked in self.at:
            self.met.append(what)
            raise self.error(f"away at {what}")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    faults = Faults()
    fetch, execute = SQLiteTransaction.fetch, SQLiteTransaction.execute

    async def failing_fetch(tx: SQLiteTransaction, query: str, *values: Any) -> Any:
        faults.meet(query)
        return await fetch(tx, query, *values)

    async def failing_execute(tx: SQLiteTransaction, query: str, *values: Bound) -> int:
        faults.meet(query)
        return await execute(tx, query, *values)

    monkeypatch.setattr(SQLiteTransaction, "fetch", failing_fetch)
    monkeypatch.setattr(SQLiteTransaction, "execute", failing_execute)
    for name in ("migrate", "exact_now", "durability"):
        monkeypatch.setattr(SQLiteBackend, name, _failing(faults, name, getattr(SQLiteBackend, name)))
    monkeypatch.setattr(rounds, "PAUSES", (0.0,))
    monkeypatch.setattr(loader_module, "_PAUSE", 0.0)
    return faults


def _failing(faults: Faults, name: str, ask: Callable[..., object]) -> Callable[..., object]:
    async def failing(backend: SQLiteBackend) -> object:
        faults.meet(name)
        return await ask(backend)  # type: ignore[misc]

    return failing


async def _a_store_with_a_claim(path: Path) -> None:
    """Whose lease is over soon after the start, and a message that is due."""
    backend = SQLiteBackend(path)
    await backend.migrate()
    store, now = Store(backend, ladder=Ladder((3_600_000,))), await backend.now()
    topic = await store.write(catalogue.add_topic, TopicDraft("orders"), now)
    group = await store.add_group(topic, "billing", now)
    draft = Draft(topic=topic, queue=topic.queues[0], body=b"1")
    await store.publish([Publication((draft,))], now)
    await store.turn(group, [], [ClaimRequest("ann", 1, 50)], now)
    await store.publish(
        [Publication((Draft(topic=topic, queue=topic.queues[0], body=b"2", deliver_at=now + 20),))], now
    )
    await store.write(clients.renew, {"bob": now}, ["bob"])
    await backend.aclose()


@asynccontextmanager
async def _started(path: Path) -> AsyncIterator[Lifecycle]:
    server = begin(SQLiteBackend(path), Settings(ladder=(3_600_000,)), Metrics())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        yield server
        nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await server.node.store.backend.aclose()


async def _is_at_work(server: Lifecycle) -> bool:
    """It serves: what was due is in the stream, what was lost is on the ladder, and it knows its clients."""
    await server.ready.wait()
    node = server.node
    topic = await node.directory.topic("orders", create=False)
    (group,) = node.directory.groups_of(topic)
    state = await node.groups.state(group)
    return state.queues[0].end == 2 and sum(state.retries) == 1 and node.liveness.names() == {"bob"}


@pytest.mark.slow
async def test_a_store_that_is_away_at_any_statement_of_the_start(tmp_path: Path, faults: Faults) -> None:
    met: set[str] = set()
    await _a_store_with_a_claim(tmp_path / "as-it-was.db")
    for number in range(1, LAST):
        path = tmp_path / f"{number}.db"
        shutil.copy(tmp_path / "as-it-was.db", path)
        faults.asked, faults.met, faults.at = 0, [], {number, number + 1}
        faults.error = (Unavailable, Contention)[number % 2]
        async with _started(path) as server:
            with trio.fail_after(20):
                await server.ready.wait()
                await server.node.loader.recovered.wait()
                recovered = faults.asked
                faults.at = set()
                while not await _is_at_work(server):
                    await trio.sleep(0.002)
        met.update(faults.met)
        if number > recovered:
            break
    assert {"migrate", "exact_now", "durability", "topic.page", "client.all", "claim.over", "delay.near"} <= met


async def test_what_comes_past_the_server_while_its_wheel_is_filled_is_on_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a user's own transaction, or a node that dies: to read ten millions takes a while."""
    filled = trio.Event()
    read = loader_module.Loader._read

    async def slowly(loader: loader_module.Loader, shards: Set[int], since: int, until: int, page: int) -> None:
        if since:  # what was overdue is read, the rest is not
            await filled.wait()
        await read(loader, shards, since, until, page)

    monkeypatch.setattr(loader_module.Loader, "_read", slowly)
    await _a_store_with_a_claim(tmp_path / "tarry.db")
    async with _started(tmp_path / "tarry.db") as server:
        with trio.fail_after(20):
            await server.ready.wait()
            node = server.node
            topic, _ = await node.catalogue.put_topic(TopicDraft("bills"))
            draft = Draft(topic=topic, queue=topic.queues[0], body=b"3", deliver_at=node.clock.now() + 50)
            await node.store.publish([Publication((draft,))], node.clock.now())
            while not any((await node.store.read(catalogue.queue_ends, [queue.id for queue in topic.queues])).values()):
                await trio.sleep(0.01)
            assert not node.loader.recovered.is_set()
            filled.set()
            await node.loader.recovered.wait()
