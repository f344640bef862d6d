"""Runs readers beside writers: a reader that continues from its offset misses no committed message (I12).

Writers publish, schedule, and roll back after drawing offsets; promoters promote due messages. Meanwhile readers pull
from their own offset and a group claims, each asking only for messages after the last one it saw.
"""

import random

import attrs
import msgspec
import trio

from support.stores import MINUTE, Stage, ids_of
from tarry.store.errors import DuplicateKey
from tarry.store.ports import Transaction
from tarry.store.records import ClaimRequest, Draft, Publication, Topic
from tarry.store.store import IDEMPOTENCY_WINDOW, Store
from tarry.store.stream import stretches
from tarry.store.stream.publishing import Publishing
from tarry.store.timers import timers

WRITERS, ROUNDS = 6, 12
LARGE, CLAIM_BYTES = 3000, 8000
"""Bytes of some bodies, and the tests' `stretches.CLAIM_BYTES`: a few large bodies make a claim end early."""
STEP = 40
"""The most milliseconds that the clock advances with each publish."""


class GivenUpError(Exception):
    """Raised to end a writer's transaction without a COMMIT."""


@attrs.define
class Readers:
    stage: Stage
    topic: Topic
    dice: random.Random
    accepted: set[int] = attrs.field(factory=set[int])
    writing: int = WRITERS
    pulled: dict[int, list[tuple[int, int]]] = attrs.field(factory=dict[int, list[tuple[int, int]]])
    """(offset, id) by queue number, in the order in which they were seen."""
    claimed: dict[int, list[tuple[int, int]]] = attrs.field(factory=dict[int, list[tuple[int, int]]])
    given_up: int = 0

    async def run(self) -> None:
        """Returns when everything is published and promoted; readers then have to read to the end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._promote)
            nursery.start_soon(self._promote)
            for number in range(WRITERS):
                nursery.start_soon(self._write, number)

    async def stock(self) -> None:
        """Publishes more than a page of each queue before the readers start."""
        drafts = tuple(
            msgspec.structs.replace(self._draft(), deliver_at=None) for _ in range(400 * len(self.topic.queues))
        )
        self.accepted |= set(ids_of(await self.stage.publish(*drafts)))

    async def _write(self, number: int) -> None:
        stage, dice = self.stage, self.dice
        # Acts as another node, which shares no row except the queues'.
        store = Store(stage.store.backend, tally_shard=16 * number)
        for _ in range(ROUNDS):
            stage.now += dice.randrange(STEP)
            drafts = tuple(self._draft() for _ in range(dice.choice((1, 2, 3, 70))))
            if dice.random() < 0.2:
                await self._give_up(store, Publication(drafts))
            else:
                (receipts,) = await store.publish([Publication(drafts)], stage.now)
                assert isinstance(receipts, list)
                self.accepted |= set(ids_of(receipts))
        self.writing -= 1

    def _draft(self) -> Draft:
        queue = self.dice.randrange(len(self.topic.queues))
        body = bytes(LARGE if self.dice.random() < 0.03 else 10)
        return self.stage.draft(self.topic, body, delay=self.dice.choice((None, None, 1)), queue=queue)

    async def _give_up(self, store: Store, publication: Publication) -> None:
        run = Publishing(store.ids, self.stage.now, IDEMPOTENCY_WINDOW, store.tally_shard)

        async def work(tx: Transaction) -> None:
            await run.write(tx, [publication])
            await tx.fetch("queue.ends", tuple[int, int], [self.topic.queues[0].id])  # carries the writes out
            raise GivenUpError

        try:
            await store.backend.write(work)
        except (GivenUpError, DuplicateKey):  # the latter after a Redis that forgot
            self.given_up += 1

    async def _promote(self) -> None:
        over = False
        while not over:
            over = not self.writing
            self.stage.now += over
            near = await self.stage.store.read(timers.near, 0, self.stage.now + 1, 1000)
            await self.stage.promote(*self.dice.sample([entry for _, entry in near], len(near)))

    async def pull(self, number: int) -> int:
        """Reads further in one queue; returns how many messages came."""
        seen = self.pulled.setdefault(number, [])
        begin = seen[-1][0] + 1 if seen else 0
        page = await self.stage.store.read(
            stretches.pull, self.topic.queues[number], begin, self.dice.choice((1, 7, 1000))
        )
        seen += [(message.offset, message.id) for message in page]
        return len(page)

    async def claim(self) -> int:
        """Claims for several clients at once, and acks; returns how many messages came."""
        (group,) = await self.stage.store.groups([self.topic])
        requests = [ClaimRequest("c", self.dice.choice((1, 30, 120)), MINUTE) for _ in range(self.dice.randrange(1, 7))]
        turn = await self.stage.store.turn(group, (), requests, self.stage.now)
        for claim in sorted(turn.ranges, key=lambda claim: claim.key.first):  # of one turn, whichever client got it
            seen = self.claimed.setdefault(claim.messages[0].queue, [])
            seen += [(message.offset, message.id) for message in claim.messages]
        for given in turn.claims:
            assert given is None or not (await self.stage.ack(group, given)).lost
        return sum(len(claim.messages) for claim in turn.ranges)

    def check(self, *, holes: bool) -> None:
        """Checks that all readers saw every message in order; `holes`: some offsets may never have had a message."""
        there: dict[int, list[tuple[int, int]]] = {}
        numbers = {queue.id: queue.number for queue in self.topic.queues}
        rows = self.stage.tables.rows("SELECT queue_id, `offset`, id FROM message WHERE id >= 0 ORDER BY `offset`")
        for queue_id, offset, id_ in rows:
            there.setdefault(numbers[queue_id], []).append((offset, id_))
        assert self.pulled == there, "a reader has skipped some"
        assert self.claimed == there, "a group has skipped some"
        assert sorted(id_ for seen in there.values() for _, id_ in seen) == sorted(self.accepted)
        if not holes:
            for seen in there.values():
                assert [offset for offset, _ in seen] == list(range(len(seen)))
        assert self.given_up > WRITERS // 2
