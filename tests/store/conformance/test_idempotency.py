"""Random requests with idempotency keys: retries, twins, other bodies, lost answers, windows that end (I10).

What the store says is compared with a dictionary. On MySQL and MariaDB the line is cut around some of the COMMITs.
"""

import random
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import attrs
import msgspec
import pytest
import trio

from support.at_once import at_once
from support.stores import HOUR, SECOND, START, Stage
from tarry.bench.proxy import MOMENTS, Proxy
from tarry.store import store as store_module
from tarry.store.opening import open_backend
from tarry.store.records import Conflict, Publication, Receipt, Topic
from tarry.store.store import IDEMPOTENCY_WINDOW, Store
from tarry.store.stream import idempotency, publishing, stretches
from tarry.store.timers import timers

KEYS = ("k", "K", "k ", "🐢")
STEPS = (0, 0, 0, 1, HOUR, IDEMPOTENCY_WINDOW - 1, IDEMPOTENCY_WINDOW)


@attrs.frozen
class Answered:
    """The first answer to a key."""

    fingerprint: bytes
    receipts: list[Receipt]
    until: int


@attrs.define
class Ledger:
    """What the store should say."""

    stage: Stage
    topics: list[Topic]
    dice: random.Random
    known: dict[tuple[int, str], Answered] = attrs.field(factory=dict[tuple[int, str], Answered])
    ids: list[int] = attrs.field(factory=list[int])
    """Of every message there should ever have been."""

    def request(self, topic: Topic, key: str | None, number: int) -> Publication:
        """Another number is another request; the same one is the same, whenever it is made."""
        delays = (None, HOUR + number)[: 1 + number % 2]
        drafts = [
            msgspec.structs.replace(
                self.stage.draft(topic, b"%d/%d" % (number, i), key="label"),
                deliver_at=None if delay is None else START + 1000 * IDEMPOTENCY_WINDOW + delay,
            )
            for i, delay in enumerate(delays[::-1] if number % 3 else delays)
        ]
        return Publication(tuple(drafts), key, b"%32d" % number)

    def any_request(self) -> Publication:
        key = self.dice.choice((*KEYS, *KEYS, None))
        return self.request(self.dice.choice(self.topics), key, self.dice.randrange(3))

    def expect(self, publication: Publication, answer: list[Receipt] | Conflict, now: int) -> None:
        """Takes the answers to what was asked at `now` in the order in which they came true."""
        place = (publication.drafts[0].topic.id, publication.idempotency_key or "")
        first = self.known.get(place)
        if publication.idempotency_key is not None and first is not None and first.until > now:
            if first.fingerprint != publication.fingerprint:
                assert answer == Conflict(publication.idempotency_key)
            else:
                assert answer == [msgspec.structs.replace(receipt, replayed=True) for receipt in first.receipts]
            return
        assert not isinstance(answer, Conflict)
        assert len(answer) == len(publication.drafts)
        assert not any(receipt.replayed for receipt in answer)
        self.ids += [receipt.id for receipt in answer]
        if publication.idempotency_key is not None:
            self.known[place] = Answered(publication.fingerprint, answer, now + IDEMPOTENCY_WINDOW)

    async def ask_in_one_batch(self, store: Store) -> None:
        asked = [self.any_request() for _ in range(self.dice.randrange(1, 5))]
        for one in asked[:2]:  # its twin, or its rival
            if one.idempotency_key is not None:
                number = self.dice.randrange(3)
                asked.append(self.request(one.drafts[0].topic, one.idempotency_key, number))
        answers = await store.publish(asked, self.stage.now)
        for publication, answer in zip(asked, answers, strict=True):
            self.expect(publication, answer, self.stage.now)

    async def ask_at_once(self, stores: list[Store]) -> None:
        """Everybody the same key of one topic, not all the same request; who came first is told by the answers."""
        topic, key = self.dice.choice(self.topics), self.dice.choice(KEYS)
        asked = [self.request(topic, key, self.dice.choice((0, 0, 1, 2))) for _ in stores]
        answers: list[tuple[Publication, list[Receipt] | Conflict]] = []

        async def ask(store: Store, publication: Publication) -> None:
            (answer,) = await store.publish([publication], self.stage.now)
            answers.append((publication, answer))

        await at_once(*(partial(ask, store, publication) for store, publication in zip(stores, asked, strict=True)))
        answers.sort(key=lambda pair: isinstance(pair[1], Conflict) or pair[1][0].replayed)
        for publication, answer in answers:
            self.expect(publication, answer, self.stage.now)

    async def disturb(self) -> None:
        """What becomes of the messages changes no answer."""
        some = self.dice.choices(self.ids or [5], k=2)
        match self.dice.randrange(3):
            case 0:
                await self.stage.store.cancel(some, self.stage.now)
            case 1:
                await self.stage.store.write(timers.reschedule, [(some[0], self.stage.now + SECOND)], self.stage.now)
            case _:
                await self.stage.promote(*some)

    def check(self) -> None:
        there = [
            id_ for table in ("delay", "message", "cancelled") for id_ in self.stage.column(f"SELECT id FROM {table}")
        ]
        assert sorted(there) == sorted(self.ids), "a message too many, or too few"


@pytest.fixture
async def line(stage: Stage, nursery: trio.Nursery) -> AsyncIterator[tuple[Store, Proxy | None]]:
    """The store behind a line that can be cut; the embedded one has no line."""
    if stage.kind == "sqlite":
        yield stage.store, None
        return
    proxy: Proxy = await nursery.start(Proxy(stage.dsn).run)
    backend = await open_backend(proxy.dsn)
    yield Store(backend), proxy
    await backend.aclose()


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_same_key_is_the_same_message(
    stage: Stage, line: tuple[Store, Proxy | None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_LOOKS", seed)  # so that most batches write before they look
    dice = random.Random(seed)
    ledger = Ledger(stage, [await stage.topic("one"), await stage.topic("other")], dice)
    store, proxy = line
    others = [stage.store, *(Store(stage.store.backend, tally_shard=16 * i) for i in range(1, 4))]
    for _ in range(70):
        match dice.randrange(8):
            case 0 | 1 | 2:
                await ledger.ask_in_one_batch(stage.store)
            case 3 | 4:
                if proxy is not None:
                    for moment in dice.choices(MOMENTS, k=dice.choice((1, 1, 2))):
                        proxy.cut(moment)
                await ledger.ask_in_one_batch(store)
            case 5:
                stage.now += dice.choice((0, IDEMPOTENCY_WINDOW))
                await ledger.ask_at_once(others)
            case 6:
                await ledger.disturb()
            case _:
                stage.now += dice.choice(STEPS)
                await stage.store.write(idempotency.forget, stage.now, 3)
    ledger.check()
    assert proxy is None or proxy.done > 5
    assert len(ledger.known) == 2 * len(KEYS)


async def test_keys_are_looked_for_when_some_have_been_known(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere the row itself tells that a key is known: nearly all are new."""
    monkeypatch.setattr(store_module, "_LOOKS", 2)
    ledger = Ledger(stage, [await stage.topic()], random.Random(1))
    looked: list[str] = []
    look = publishing.Publishing._replays

    async def spied(run: publishing.Publishing, *args: Any) -> Any:
        looked.append("looked" if run.look else "wrote")
        return await look(run, *args)

    monkeypatch.setattr(publishing.Publishing, "_replays", spied)
    for key, expected in (
        ("a", ["wrote"]),
        ("b", ["wrote"]),
        ("a", ["wrote", "looked"]),
        ("c", ["looked"]),
        ("a", ["looked"]),
        ("d", ["looked"]),
        ("e", ["looked"]),
        ("f", ["wrote"]),
    ):
        request = ledger.request(ledger.topics[0], key, 0)
        (answer,) = await stage.store.publish([request], stage.now)
        ledger.expect(request, answer, stage.now)
        assert looked == expected, key
        looked.clear()
    ledger.check()


async def test_what_is_kept_with_a_key_has_the_offsets_of_all_its_queues(stage: Stage) -> None:
    """They are not drawn yet when it is written out."""
    topic = await stage.topic(queues=3)
    await stage.publish(stage.draft(topic, queue=1))
    drafts = [stage.draft(topic, queue=queue, delay=delay) for queue, delay in ((1, None), (0, HOUR), (0, None))]
    requests = [
        Publication(tuple(drafts), "wide", b"f" * 32),
        Publication((drafts[0],), None, b"f" * 32),
        Publication((drafts[1],), "later", b"f" * 32),
        Publication((drafts[2], drafts[1]), "mixed", b"f" * 32),
    ]
    first = await stage.store.publish(requests, stage.now)
    again = await stage.store.publish(requests, stage.now)
    for number, (one, other) in enumerate(zip(first, again, strict=True)):
        assert isinstance(one, list)
        assert isinstance(other, list)
        if number != 1:
            assert other == [msgspec.structs.replace(receipt, replayed=True) for receipt in one]
        for receipt in one:
            if receipt.state == "published":
                (message,) = await stage.store.read(
                    stretches.pull, topic.queues[receipt.queue or 0], receipt.offset or 0, 1
                )
                assert message.id == receipt.id
