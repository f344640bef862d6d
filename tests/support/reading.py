"""Readers beside writers: whoever reads on from where it was misses nothing that was committed (I12).

Writers publish, schedule, and give up half-way with their offsets drawn; promoters hand over what falls due. Meanwhile
readers pull from their own offset on and a group claims, each asking only for what lies behind the last it saw.
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
"""Bytes of some bodies, and for the tests' `stretches.CLAIM_BYTES`: a few of them make a claim end early."""
STEP = 40
"""The clock goes on by so many milliseconds at most with each publish."""


class GivenUpError(Exception):
    """A writer's transaction ends without COMMIT."""


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
        """Returns when all is published and promoted; who reads is to read on to the end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._promote)
            nursery.start_soon(self._promote)
            for number in range(WRITERS):
                nursery.start_soon(self._write, number)

    async def stock(self) -> None:
        """More than a page of each queue is there before anybody reads."""
        drafts = tuple(
            msgspec.structs.replace(self._draft(), deliver_at=None) for _ in range(400 * len(self.topic.queues))
        )
        self.accepted |= set(ids_of(await self.stage.publish(*drafts)))

    async def _write(self, number: int) -> None:
        stage, dice = self.stage, self.dice
        # A node of its own: it shares no row but the queues'.
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
            await tx.fetch("queue.ends", tuple[int, int], [self.topic.queues[0].id])  # it has been carried out
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
        """Reads on in one queue; how many came."""
        seen = self.pulled.setdefault(number, [])
        begin = seen[-1][0] + 1 if seen else 0
        page = await self.stage.store.read(
            stretches.pull, self.topic.queues[number], begin, self.dice.choice((1, 7, 1000))
        )
        seen += [(message.offset, message.id) for message in page]
        return len(page)

    async def claim(self) -> int:
        """Claims for several clients at once, and acks; how many came."""
        (group,) = await self.stage.store.groups([self.topic])
        requests = [ClaimRequest("c", self.dice.choice((1, 30, 120)), MINUTE) for _ in range(self.dice.randrange(1, 7))]
        turn = await self.stage.store.turn(group, (), requests, self.stage.now)
        for claim in sorted(turn.ranges, key=lambda claim: claim.key.first):  # of one turn, whoever got which
            seen = self.claimed.setdefault(claim.messages[0].queue, [])
            seen += [(message.offset, message.id) for message in claim.messages]
        for given in turn.claims:
            assert given is None or not (await self.stage.ack(group, given)).lost
        return sum(len(claim.messages) for claim in turn.ranges)

    def check(self, *, holes: bool) -> None:
        """Everybody has seen all there is, in order; `holes`: some offsets may never have had a message."""
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
