"""Messages with a guard: promotion leaves them, and takes them with an answer; the row decides as always."""

import random
from typing import Any

import trio

from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, START, Stage, ids_of, nobody_waits, uncommitted
from tarry.store.ids import SHARDS, SHARDS_OF_DELAY
from tarry.store.looking import finding
from tarry.store.looking.finding import PageStart, Wanted
from tarry.store.records import Receipt, Topic, Verdict
from tarry.store.timers import guarded, keyed, timers
from tarry.store.timers.guarded import Guarded, Suppressed
from tarry.store.timers.keyed import Wish


def fresh() -> bool:
    return True


async def guard(stage: Stage, topic: Topic, *keys: str, delay: int = SECOND, **rest: Any) -> list[Receipt]:
    """A message for each key."""
    drafts = [stage.draft(topic, delay=delay, key=key, guard="unpaid", **rest) for key in keys]
    return await stage.publish(*drafts)


class TestAfterwards:
    async def test_a_cancel_and_another_time_are_told_what_it_is(self, stage: Stage, topic: Topic) -> None:
        no, gone, waits = await guard(stage, topic, "a", "b", "c")
        await stage.store.cancel([gone.id], stage.now)
        stage.now += SECOND
        await stage.store.promote_guarded({no.id: False}, stage.now, fresh)
        verdicts = await stage.store.cancel([no.id, gone.id], stage.now)
        assert [(one.result, one.fresh) for one in verdicts] == [("suppressed", False), ("cancelled", False)]
        moves = [(no.id, stage.now + HOUR), (gone.id, stage.now + HOUR)]
        moved = await stage.store.write(timers.reschedule, moves, stage.now)
        assert [one.result for one in moved] == ["suppressed", "cancelled"]
        assert [(await stage.found(one.id)).guard for one in (no, gone, waits)] == ["unpaid", None, "unpaid"]


class TestPromotion:
    async def test_it_stays_and_is_told(self, stage: Stage, topic: Topic) -> None:
        told = stage.store.guarded
        (one,) = await guard(stage, topic, "order-7")
        (plain,) = await stage.schedule(topic, SECOND)
        assert await stage.promote(one.id, plain.id) == []
        assert told == {}, "it is not due"
        stage.now += SECOND
        assert [done.entry for done in await stage.promote(one.id, plain.id)] == [plain.id]
        assert told == {one.id: "unpaid"}
        asked = await stage.store.read(guarded.questions, [one.id, plain.id, 5])
        assert asked == [Guarded(one.id, one.due, "unpaid", "order-7")]

    async def test_who_listens_to_nothing_leaves_it_too(self, stage: Stage, topic: Topic) -> None:
        (one,) = await guard(stage, topic, "order-7")
        stage.now += HOUR
        assert await stage.promote(one.id) == []
        assert stage.count("delay") == 1

    async def test_one_without_a_time_to_come_waits_for_its_answer(self, stage: Stage, topic: Topic) -> None:
        told = stage.store.guarded
        past = await guard(stage, topic, "a", "b", delay=-SECOND)
        (bare,) = await stage.publish(stage.draft(topic, key="c", guard="unpaid"))
        receipts = [*past, bare]
        assert [one.state for one in receipts] == ["scheduled"] * 3
        assert stage.count("message") == 0
        assert {one.due for one in receipts} == {START}
        assert [one.deliver_at for one in receipts] == [START - SECOND] * 2 + [START]
        await stage.promote(*ids_of(receipts))
        assert told == dict.fromkeys(ids_of(receipts), "unpaid")

    async def test_true_is_sent(self, stage: Stage, topic: Topic) -> None:
        (one,) = await guard(stage, topic, "order-7", headers=b'{"a":"b"}', tag="red")
        stage.now += SECOND
        promoted, suppressed, left = await stage.store.promote_guarded({one.id: True}, stage.now, fresh)
        assert ([done.entry for done in promoted], suppressed, left) == ([one.id], [], set())
        there = await stage.found(one.id)
        assert (there.state, there.key, there.tag, there.headers) == ("published", "order-7", "red", b'{"a":"b"}')
        await stage.counts(topic, accepted=1, streamed=1, suppressed=0, pending=0)

    async def test_false_ends_it(self, stage: Stage, topic: Topic) -> None:
        one, other = await guard(stage, topic, "order-7", "order-8")
        stage.now += SECOND
        answers = {one.id: False, other.id: True}
        promoted, suppressed, left = await stage.store.promote_guarded(answers, stage.now, fresh)
        assert [done.entry for done in promoted] == [other.id]
        assert (suppressed, left) == ([Suppressed(one.id, topic.id)], set())
        assert stage.count("delay") == 0
        assert [bytes(name) for name in stage.column("SELECT guard FROM cancelled")] == [b"unpaid"]
        there = await stage.found(one.id)
        assert (there.state, there.key, there.body) == ("suppressed", "order-7", None)
        assert [(event.what, event.at) for event in there.life] == [("scheduled", START), ("suppressed", stage.now)]
        await stage.counts(topic, accepted=2, streamed=1, suppressed=1, cancelled=0, pending=0)
        assert await stage.promote(one.id) == []

    async def test_without_an_answer_it_stays(self, stage: Stage, topic: Topic) -> None:
        (one,) = await guard(stage, topic, "order-7")
        stage.now += SECOND
        for answers, young in (({one.id: True}, False), ({one.id: False}, False), ({one.id ^ 1: True}, True)):
            done = await stage.store.promote_guarded(answers, stage.now, lambda young=young: young)  # type: ignore[misc]
            assert done == ([], [], {one.id} if one.id in answers else set())
        assert stage.count("delay") == 1

    async def test_before_its_time_no_answer_counts(self, stage: Stage, topic: Topic) -> None:
        one, other = await guard(stage, topic, "order-7", "order-8")
        assert await stage.store.promote_guarded({one.id: True, other.id: False}, stage.now, fresh) == ([], [], set())
        assert stage.count("delay") == 2

    @on_servers
    async def test_what_another_has_locked_is_left(self, stage: Stage, topic: Topic) -> None:
        yes, no = await guard(stage, topic, "order-7", "order-8")
        await stage.schedule(topic, HOUR)
        answers = {yes.id: True, no.id: False}
        stage.now += SECOND
        await stage.store.promote_guarded({}, stage.now, fresh)
        # The tally of guards is yet to be made, which takes the topic's row.
        held = ("SELECT * FROM queue FOR UPDATE", "SELECT * FROM topic FOR UPDATE")
        with uncommitted(stage.dsn, *held), nobody_waits(stage.tables):
            done = await stage.store.promote_guarded(answers, stage.now, fresh)
        assert done == ([], [], {yes.id, no.id})
        assert stage.column("SELECT special FROM delay WHERE guard IS NOT NULL") == [2, 2], "they are asked for again"
        promoted, suppressed, left = await stage.store.promote_guarded(answers, stage.now, fresh)
        assert (len(promoted), len(suppressed), left) == (1, 1, set())

    async def test_a_topic_that_is_gone(self, stage: Stage, topic: Topic) -> None:
        yes, no = await guard(stage, topic, "order-7", "order-8")
        await stage.store.remove_topic(topic, stage.now, force=True)
        stage.now += SECOND
        await stage.store.promote_guarded({yes.id: True, no.id: False}, stage.now, fresh)
        assert stage.count("delay") == stage.count("message") == stage.count("tally") == 0


class TestMeanwhile:
    async def test_cancelled(self, stage: Stage, topic: Topic) -> None:
        yes, no = await guard(stage, topic, "order-7", "order-8")
        stage.now += SECOND
        await stage.store.cancel([yes.id, no.id], stage.now)
        assert await stage.store.promote_guarded({yes.id: True, no.id: False}, stage.now, fresh) == ([], [], set())
        await stage.counts(topic, cancelled=2, suppressed=0, streamed=0)

    async def test_moved(self, stage: Stage, topic: Topic) -> None:
        told = stage.store.guarded
        yes, no = await guard(stage, topic, "order-7", "order-8")
        stage.now += SECOND
        moves = [(yes.id, stage.now + HOUR), (no.id, stage.now + HOUR)]
        await stage.store.write(timers.reschedule, moves, stage.now)
        answers = {yes.id: True, no.id: False}
        assert await stage.store.promote_guarded(answers, stage.now, fresh) == ([], [], set())
        assert await stage.fall_due(after=HOUR) == []
        assert told == dict.fromkeys(answers, "unpaid"), "it has its guard still"
        assert len(await stage.store.read(guarded.questions, list(answers))) == 2
        promoted, suppressed, left = await stage.store.promote_guarded(answers, stage.now, fresh)
        assert (len(promoted), len(suppressed), left) == (1, 1, set())
        assert stage.count("moved") == 0

    async def test_what_is_said_of_one_that_has_ended(self, stage: Stage, topic: Topic) -> None:
        (one,) = await guard(stage, topic, "order-7")
        stage.now += SECOND
        await stage.store.promote_guarded({one.id: False}, stage.now, fresh)
        assert await stage.store.cancel([one.id], stage.now) == [Verdict("suppressed", fresh=False, topic=topic.id)]
        (verdict,) = await stage.store.write(timers.reschedule, [(one.id, stage.now + HOUR)], stage.now)
        assert verdict.result == "suppressed"
        await stage.counts(topic, cancelled=0, suppressed=1)

    async def test_races(self, stage: Stage) -> None:
        """Answer and cancel of the same messages at once: each ends in one way, and what was said is true."""
        dice, topic = random.Random(7), await stage.topic()
        receipts = await guard(stage, topic, *(f"order-{number}" for number in range(60)))
        stage.now += SECOND
        ids = ids_of(receipts)
        said: dict[int, str] = {}

        async def cancel(id_: int) -> None:
            while (verdict := (await stage.store.cancel([id_], stage.now))[0]).result == "locked":
                await trio.lowlevel.checkpoint()
            if verdict.fresh:
                said[id_] = verdict.result

        async def ask(some: list[int]) -> None:
            answers = {id_: id_ % 3 > 0 for id_ in some}
            while answers:
                _, _, left = await stage.store.promote_guarded(answers, stage.now, fresh)
                answers = {id_: answers[id_] for id_ in left}

        async with trio.open_nursery() as nursery:
            for id_ in dice.sample(ids, 30):
                nursery.start_soon(cancel, id_)
            for begin in range(0, 60, 10):
                nursery.start_soon(ask, ids[begin : begin + 10])
        # A row that was locked at one moment is neither: whoever asks asks again.
        await ask(stage.column("SELECT id FROM delay"))
        states = {id_: (await stage.found(id_)).state for id_ in ids}
        for id_, result in said.items():
            assert (result == "cancelled") == (states[id_] == "cancelled"), (result, states[id_])
        ended = {"published": 0, "suppressed": 0, "cancelled": 0}
        for state in states.values():
            ended[state] += 1
        topic_counts = await stage.state(topic)
        assert (topic_counts.streamed, topic_counts.suppressed, topic_counts.cancelled) == tuple(ended.values())
        assert topic_counts.pending == 0


class TestTimers:
    async def test_of_a_key(self, stage: Stage, topic: Topic) -> None:
        told = stage.store.guarded
        draft = stage.draft(topic, delay=SECOND, guard="unpaid")
        (first,) = await stage.store.set_timers([Wish(topic, "order-7", draft)], stage.now)
        wishes = [Wish(topic, "order-7", draft), Wish(topic, "plain", stage.draft(topic, delay=SECOND))]
        second, plain = await stage.store.set_timers(wishes, stage.now)
        assert (second.result, plain.result) == ("replaced", "made")
        stage.now += SECOND
        assert [done.entry for done in await stage.promote(first.id, second.id, plain.id)] == [plain.id]
        assert told == {second.id: "unpaid"}
        await stage.store.promote_guarded({second.id: False}, stage.now, fresh)
        timer = await stage.store.read(keyed.find_timer, topic, "order-7")
        assert timer is not None
        assert timer.state == "suppressed"
        (again,) = await stage.store.set_timers([Wish(topic, "order-7", draft)], stage.now)
        assert again.result == "made", "the one before is over"


class TestLooking:
    async def test_by_state(self, stage: Stage, topic: Topic) -> None:
        one, two, three = await guard(stage, topic, "a", "b", "c", delay=MINUTE)
        await stage.store.cancel([two.id], stage.now)
        stage.now += HOUR
        await stage.store.promote_guarded({one.id: False}, stage.now, fresh)
        for state, id_ in (("suppressed", one.id), ("cancelled", two.id), ("scheduled", three.id)):
            page = await stage.store.read(finding.find, topic, Wanted(state), PageStart(), 10)  # type: ignore[arg-type]
            assert page.ids == [id_], state


class TestNames:
    async def test_noted_and_forgotten(self, stage: Stage) -> None:
        for name in ("unpaid", "open", "unpaid"):
            await stage.store.write(guarded.note, name)
        assert sorted(await stage.store.read(guarded.noted)) == ["open", "unpaid"]
        await stage.store.write(guarded.forget, "open")
        assert await stage.store.read(guarded.noted) == ["unpaid"]

    async def test_how_many_wait_page_by_page(self, stage: Stage, topic: Topic) -> None:
        await guard(stage, topic, *"abcdefg", delay=HOUR)
        await stage.publish(*(stage.draft(topic, delay=HOUR, key=key, guard="open") for key in "xyz"))
        moved = await stage.schedule(topic, *[HOUR] * 20)
        await stage.store.write(timers.reschedule, [(moved[0].id, stage.now + MINUTE)], stage.now)
        waiting: dict[str, int] = {}
        for shard in range(SHARDS_OF_DELAY):
            after: int | None = 0
            while after is not None:
                some, after = await stage.store.read(guarded.waiting_in, shard, after, 2)
                for name, many in some.items():
                    waiting[name] = waiting.get(name, 0) + many
        assert waiting == {"unpaid": 7, "open": 3}
        assert SHARDS < SHARDS_OF_DELAY
