"""A cancel that races promotion: either may win, and its answer is true (I8, I9)."""

import random

import pytest
import trio

from support.effort import full, tries
from support.stores import SECOND, Stage, ids_of
from tarry.store.records import Claim, Topic, Verdict
from tarry.store.timers import timers

MESSAGES, ROUND = tries(2_000, 10_000), 500


@pytest.mark.slow
@full
async def test_thousands_of_cancels_race_promotion(stage: Stage, topic: Topic) -> None:
    """Each message is cancelled by a transaction of its own while batches that hold it are promoted."""
    dice = random.Random(stage.kind)
    due: list[int] = []
    for _ in range(10):
        due += ids_of(await stage.schedule(topic, *[SECOND] * (MESSAGES // 10)))
    stage.now += SECOND
    verdicts: dict[int, Verdict] = {}
    promoted: list[int] = []
    # Whoever span here would keep the interpreter from the threads that work for the embedded store.
    waiting = trio.lowlevel.ParkingLot()

    async def cancel(ids: list[int]) -> None:
        while ids:
            id_ = ids.pop()
            while (verdict := (await stage.store.cancel([id_], stage.now))[0]).result == "locked":
                await trio.lowlevel.checkpoint()
            verdicts[id_] = verdict
            waiting.unpark_all()

    async def promote(ids: list[int], after: int) -> None:
        """In batches, each of them once so many cancels have been answered."""
        answered = len(verdicts)
        while ids:
            while len(verdicts) < answered + after and len(verdicts) % ROUND:
                await waiting.park()
            answered = len(verdicts)
            batch, ids = ids[:50], ids[50:]
            promoted.extend(p.entry for p in await stage.promote(*batch))

    for start in range(0, MESSAGES, ROUND):
        ids = due[start : start + ROUND]
        to_cancel = dice.sample(ids, ROUND)
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(cancel, to_cancel)
            nursery.start_soon(promote, dice.sample(ids, ROUND), 20)
            nursery.start_soon(promote, dice.sample(ids, ROUND), 30)

    cancelled = {id_ for id_, verdict in verdicts.items() if verdict.result == "cancelled"}
    too_late = {id_ for id_, verdict in verdicts.items() if verdict.result == "too_late"}
    assert cancelled | too_late == set(due)
    assert min(len(cancelled), len(too_late)) > MESSAGES // 20, (len(cancelled), len(too_late))
    assert all(verdict.fresh for verdict in verdicts.values())
    # Each is true by the tables, and nothing came twice or never.
    assert set(stage.column("SELECT id FROM cancelled")) == cancelled
    streamed = stage.column("SELECT id FROM message ORDER BY `offset`")
    assert set(streamed) == too_late == set(promoted)
    assert len(streamed) == len(promoted) == len(too_late)
    assert stage.column("SELECT `offset` FROM message ORDER BY `offset`") == list(range(len(streamed)))
    assert stage.count("delay") == 0
    await stage.counts(topic, accepted=MESSAGES, streamed=len(too_late), cancelled=len(cancelled))


@pytest.mark.slow
async def test_reschedules_race_promotion_and_cancel(stage: Stage, topic: Topic) -> None:
    """A message that was put off is not handed out before, whoever came first."""
    ids = ids_of(await stage.schedule(topic, *[SECOND] * 600))
    stage.now += SECOND
    later = stage.now + 60 * SECOND
    moved: set[int] = set()
    cancelled: set[int] = set()

    async def put_off(some: list[int]) -> None:
        for id_ in some:
            while (
                verdict := (await stage.store.write(timers.reschedule, [(id_, later)], stage.now))[0]
            ).result == "locked":
                await trio.lowlevel.checkpoint()
            if verdict.result == "rescheduled":
                moved.add(id_)

    async def cancel(some: list[int]) -> None:
        for id_ in some:
            while (verdict := (await stage.store.cancel([id_], stage.now))[0]).result == "locked":
                await trio.lowlevel.checkpoint()
            if verdict.result == "cancelled":
                cancelled.add(id_)

    async def promote(some: list[int]) -> None:
        for start in range(0, len(some), 20):
            await stage.promote(*some[start : start + 20])

    dice = random.Random(5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(promote, dice.sample(ids, 600))
        for job in (put_off, cancel, put_off, cancel):
            nursery.start_soon(job, dice.sample(ids, 300))
    streamed = set(stage.column("SELECT id FROM message"))
    assert set(await stage.waiting()) == moved - cancelled
    assert set((await stage.waiting()).values()) <= {later}
    assert streamed.isdisjoint(moved | cancelled)
    assert streamed | moved | cancelled == set(ids)
    assert set(stage.column("SELECT id FROM moved")) == moved - cancelled
    assert len({len(streamed) > 0, len(moved) > 0, len(cancelled) > 0}) == 1


@pytest.mark.slow
async def test_everybody_at_once(stage: Stage) -> None:
    """Publishers, promoters, cancellers and consumers: what is accepted is accounted for, and no error comes out."""
    topic, group = await stage.topic_and_group(queues=2)
    acked: list[bytes] = []
    failed: list[bytes] = []
    accepted: list[int] = []
    cancelled: set[int] = set()
    working = 6

    async def publish(number: int) -> None:
        nonlocal working
        for i in range(15):
            name = b"%d/%d" % (number, i)
            drafts = [stage.draft(topic, name + b"/%d" % j, j % 2 or None, queue=(i + j) % 2) for j in range(6)]
            receipts = await stage.publish(*drafts)
            accepted.extend(ids_of(receipts))
            for receipt in receipts[1:4:2]:
                (verdict,) = await stage.store.cancel([receipt.id], stage.now)
                if verdict.result == "cancelled":
                    cancelled.add(receipt.id)
        working -= 1

    def is_over() -> bool:
        return not working and len(acked) == len(accepted) - len(cancelled)

    async def promote() -> None:
        while not is_over():
            stage.now += 1
            near = await stage.store.read(timers.near, 0, stage.now + 1, 50)
            await stage.promote(*(entry for _, entry in near))

    async def consume(number: int) -> None:
        client = f"client-{number}"
        while not is_over():
            found = await stage.claim_some(group, 5, lease=10**9, client=client)
            for claim in () if found is None else found.ranges:
                await settle(claim)

    async def settle(claim: Claim) -> None:
        bad = tuple(i for i, m in enumerate(claim.messages) if m.body.endswith(b"/2") and m.attempt == 1)
        if bad:
            settled = await stage.fail(group, claim, bad, retry_after=1)
            assert settled.retried == len(bad)
            failed.extend(claim.messages[i].body for i in bad)
        if len(bad) < len(claim.messages):
            assert (await stage.ack(group, claim)).acked == len(claim.messages) - len(bad)
            acked.extend(m.body for i, m in enumerate(claim.messages) if i not in bad)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(publish, number)
        for number in range(2):
            nursery.start_soon(promote)
            nursery.start_soon(consume, number)
    assert len(set(accepted)) == len(accepted) == 540
    assert len(set(acked)) == len(acked) == 540 - len(cancelled)
    assert len(set(failed)) == len(failed) == 90
    await stage.counts(group, acked=len(acked), retried=90, claimed=0)
    assert stage.count("message") == 540 - len(cancelled)
    assert stage.count("redelivery") == 90
