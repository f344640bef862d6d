"""Cancel and reschedule: the verdict is exact, by the row."""

from functools import partial

import pytest
import trio
import trio.lowlevel

from support.at_once import at_once
from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, START, Stage, ids_of, nobody_waits, uncommitted
from tarry.store import catalogue
from tarry.store.records import Topic, Verdict
from tarry.store.stream import stretches
from tarry.store.timers import timers


class TestCancel:
    async def test_in_time(self, stage: Stage, topic: Topic) -> None:
        (receipt,) = await stage.publish(stage.draft(topic, delay=HOUR, key="order-7"))
        (verdict,) = await stage.store.cancel([receipt.id], stage.now)
        assert verdict == Verdict("cancelled", topic=topic.id, due_before=receipt.due)
        assert await stage.waiting() == {}
        stage.now += HOUR
        assert await stage.promote(receipt.id) == []
        (row,) = stage.tables.rows("SELECT id, `key`, accepted_at, deliver_at, cancelled_at FROM cancelled")
        assert row == (receipt.id, b"order-7", START, receipt.due, START)

    async def test_after_its_time_but_before_promotion(self, stage: Stage, topic: Topic) -> None:
        (receipt,) = await stage.schedule(topic, HOUR)
        stage.now += 2 * HOUR
        (verdict,) = await stage.store.cancel([receipt.id], stage.now)
        assert verdict.result == "cancelled"
        assert await stage.promote(receipt.id) == []

    async def test_published_now(self, stage: Stage, topic: Topic) -> None:
        (receipt,) = await stage.publish(stage.draft(topic))
        (verdict,) = await stage.store.cancel([receipt.id], stage.now)
        assert verdict.result == "too_late"

    async def test_unknown(self, stage: Stage, topic: Topic) -> None:
        (receipt,) = await stage.schedule(topic, HOUR)
        verdicts = await stage.store.cancel([0, receipt.id ^ 1, receipt.id + 16, (1 << 63) - 1], stage.now)
        assert verdicts == [Verdict("not_found")] * 4
        assert stage.count("delay") == 1

    async def test_a_batch_is_answered_in_order(self, stage: Stage) -> None:
        topic, other = await stage.topic(), await stage.topic("other")
        (soon,) = await stage.schedule(topic, SECOND)
        (gone,) = await stage.schedule(topic, HOUR)
        (here,) = await stage.schedule(other, HOUR)
        await stage.store.cancel([gone.id], stage.now)
        stage.now += SECOND
        await stage.promote(soon.id)
        ids = [here.id, 99, soon.id, gone.id, here.id]
        verdicts = await stage.store.cancel(ids, stage.now)
        assert [(v.result, v.fresh, v.topic) for v in verdicts] == [
            ("cancelled", True, other.id),
            ("not_found", True, None),
            ("too_late", True, topic.id),
            ("cancelled", False, topic.id),
            ("cancelled", False, other.id),
        ]
        states = await stage.store.read(catalogue.topic_states, [topic, other])
        assert [states[t.id].cancelled for t in (topic, other)] == [1, 1]

    async def test_many(self, stage: Stage, topic: Topic) -> None:
        ids = ids_of(await stage.schedule(topic, *[HOUR] * 1500))
        verdicts = await stage.store.cancel(ids, stage.now)
        assert all(v.result == "cancelled" and v.fresh for v in verdicts)
        assert stage.count("delay") == 0
        await stage.counts(topic, accepted=1500, cancelled=1500, pending=0)

    async def test_the_first_cancels_of_a_topic_at_once(self, stage: Stage) -> None:
        """Each would begin the row in which they are counted."""
        for round_ in range(5):
            topic = await stage.topic(f"topic-{round_}")
            ids = ids_of(await stage.schedule(topic, *[HOUR] * 8))
            verdicts: list[Verdict] = []

            async def cancel(id_: int, verdicts: list[Verdict] = verdicts) -> None:
                while (verdict := (await stage.store.cancel([id_], stage.now))[0]).result == "locked":
                    await trio.lowlevel.checkpoint()  # another counts in it: the service asks again too
                verdicts.append(verdict)

            await at_once(*(partial(cancel, id_) for id_ in ids))
            assert [v.result for v in verdicts] == ["cancelled"] * 8
            assert (await stage.state(topic)).cancelled == 8

    async def test_of_two_at_once_one_is_fresh(self, stage: Stage, topic: Topic) -> None:
        for receipt in await stage.schedule(topic, *[HOUR] * 30):
            verdicts: list[Verdict] = []

            async def cancel(id_: int = receipt.id, verdicts: list[Verdict] = verdicts) -> None:
                while (verdict := (await stage.store.cancel([id_], stage.now))[0]).result == "locked":
                    pass
                verdicts.append(verdict)

            await at_once(cancel, cancel)
            assert sorted((v.result, v.fresh) for v in verdicts) == [("cancelled", False), ("cancelled", True)]
        assert stage.count("cancelled") == 30

    @on_servers
    async def test_a_row_that_somebody_holds(self, stage: Stage, topic: Topic) -> None:
        held, free = await stage.schedule(topic, HOUR, HOUR)
        row = f"SELECT id FROM delay WHERE shard = {held.id & 15} AND id = {held.id} FOR UPDATE"
        with uncommitted(stage.dsn, row), nobody_waits(stage.tables):
            verdicts = await stage.store.cancel([held.id, free.id], stage.now)
            moved = await stage.store.write(timers.reschedule, [(held.id, stage.now)], stage.now)
        assert verdicts == [
            Verdict("locked", topic=topic.id),
            Verdict("cancelled", topic=topic.id, due_before=free.due),
        ]
        assert moved == [Verdict("locked", topic=topic.id)]
        (verdict,) = await stage.store.cancel([held.id], stage.now)
        assert verdict.result == "cancelled"


class TestReschedule:
    @pytest.mark.parametrize("to", [MINUTE, 3 * HOUR, HOUR + 1])
    async def test_both_ways(self, stage: Stage, to: int, topic: Topic) -> None:
        (receipt,) = await stage.schedule(topic, HOUR)
        due = stage.now + to
        (verdict,) = await stage.store.write(timers.reschedule, [(receipt.id, due)], stage.now)
        assert verdict == Verdict("rescheduled", topic=topic.id, due_before=receipt.due, due=due, deliver_at=due)
        assert await stage.waiting() == {receipt.id: due}
        stage.now = due - 1
        assert await stage.promote(receipt.id) == []
        stage.now = due
        assert len(await stage.promote(receipt.id)) == 1
        (message,) = await stage.store.read(stretches.pull, topic.queues[0], 0, 1)
        assert (message.id, message.deliver_at) == (receipt.id, due)
        assert stage.count("moved") == 0

    async def test_into_the_past_is_now(self, stage: Stage, topic: Topic) -> None:
        (receipt,) = await stage.schedule(topic, HOUR)
        (verdict,) = await stage.store.write(timers.reschedule, [(receipt.id, START - HOUR)], stage.now)
        assert (verdict.result, verdict.due, verdict.deliver_at) == ("rescheduled", START, START - HOUR)
        assert len(await stage.promote(receipt.id)) == 1

    async def test_twice_in_one_batch(self, stage: Stage, topic: Topic) -> None:
        (receipt,) = await stage.schedule(topic, HOUR)
        one, two = stage.now + MINUTE, stage.now + 2 * MINUTE
        verdicts = await stage.store.write(timers.reschedule, [(receipt.id, one), (receipt.id, two)], stage.now)
        assert [(v.due_before, v.due) for v in verdicts] == [(receipt.due, one), (one, two)]
        assert await stage.waiting() == {receipt.id: two}
        assert stage.count("moved") == 1

    async def test_what_does_not_wait(self, stage: Stage, topic: Topic) -> None:
        cancelled, streamed = await stage.schedule(topic, HOUR, SECOND)
        await stage.store.cancel([cancelled.id], stage.now)
        stage.now += SECOND
        await stage.promote(streamed.id)
        moves = [(id_, stage.now + HOUR) for id_ in (cancelled.id, streamed.id, 77)]
        verdicts = await stage.store.write(timers.reschedule, moves, stage.now)
        assert verdicts == [
            Verdict("cancelled", fresh=False, topic=topic.id),
            Verdict("too_late", topic=topic.id),
            Verdict("not_found"),
        ]
        assert stage.count("moved") == stage.count("delay") == 0
