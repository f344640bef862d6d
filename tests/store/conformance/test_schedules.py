"""Recurring schedules on a store: one message of each waits, and its turn puts the next in its place, once."""

import random
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import msgspec
import pytest

from support.at_once import at_once
from support.cleaning import whole_round
from support.stores import HOUR, MINUTE, SECOND, START, Stage, ids_of
from tarry.service.durations import format_time
from tarry.service.schedules.courses import course_of
from tarry.store.cleaning import retention
from tarry.store.errors import Held
from tarry.store.ids import SHARDS, shard_of
from tarry.store.records import Group, Promoted, Topic, TopicState
from tarry.store.rows import ScheduleRow
from tarry.store.schedules import schedules
from tarry.store.schedules.course import Armed
from tarry.store.schedules.schedules import Fire, Result, Wish
from tarry.store.timers import timers
from tarry.store.timers.order import Orders

LOOKS = 1000
"""As many are more than are needed, for what has come has a turn each, and who holds a message is done with it soon."""


@attrs.define
class Rounds:
    """Short words."""

    stage: Stage
    topic: Topic
    unsent: list[Fire] = attrs.field(factory=list[Fire])
    """What had come of the schedule that was removed last, and was not sent."""

    @property
    def armed(self) -> list[Armed]:
        """What waits since its start."""
        return self.stage.store.armed

    @property
    def dropped(self) -> list[tuple[int, int]]:
        """What waits no more."""
        return self.stage.store.dropped

    async def put(
        self, name: str = "daily", paused: bool | None = None, **said: Any
    ) -> tuple[Result, ScheduleRow | None]:
        condition = {key: said.pop(key) for key in ("revision", "absent") if key in said}
        topic: Topic = said.pop("into", self.topic)
        text = msgspec.json.encode({"topic": topic.name, "every": MINUTE, "body": {"a": 1}} | said)
        wish = Wish(name, topic, topic.queues[0], text, paused, **condition)
        for _ in range(LOOKS):
            with suppress(Held):
                result, row = await self.stage.store.change(
                    lambda tx, firing: schedules.put(tx, firing, wish), self.stage.now
                )
                if result != "behind":
                    return result, row
        raise AssertionError("it stays behind, or held")

    async def made(self, name: str = "daily", **said: Any) -> ScheduleRow:
        _, row = await self.put(name, **said)
        assert row is not None
        return row

    async def pause(self, paused: bool = True, name: str = "daily") -> ScheduleRow | None:
        return await self.stage.store.change(
            lambda tx, firing: schedules.pause(tx, firing, name, paused=paused), self.stage.now
        )

    async def resume(self) -> ScheduleRow:
        row = await self.pause(False)
        assert row is not None
        return row

    async def remove(self, revision: int | None = None) -> bool:
        removed, _, self.unsent = await self.stage.store.change(
            lambda tx, firing: schedules.remove(tx, firing, "daily", revision), self.stage.now
        )
        return removed

    async def run(self) -> tuple[int, int] | None:
        return await self.stage.store.change(lambda tx, firing: schedules.run(tx, firing, "daily"), self.stage.now)

    async def backfill(self, *times: int) -> list[int] | None:
        sent = await self.stage.store.change(
            lambda tx, firing: schedules.backfill(tx, firing, "daily", times), self.stage.now
        )
        return None if sent is None else [at for at, _ in sent]

    async def mend(self) -> int:
        ids = list[int]()
        place: schedules.WaitingKey | None = schedules.FIRST
        while place is not None:
            some, place = await self.stage.store.read(schedules.overdue, self.stage.now, place, 2)
            ids += some
        return await self.stage.store.change(lambda tx, firing: schedules.mend(tx, firing, ids), self.stage.now)

    async def find(self, name: str = "daily") -> ScheduleRow:
        row = await self.stage.store.read(schedules.find_schedule, name)
        assert row is not None
        return row

    async def fires(self) -> list[tuple[int, str]]:
        """(seconds after the start, what), the earliest first."""
        row = await self.find()
        found = await self.stage.store.read(schedules.fires, row.id, 1 << 62, 100)
        return [((one.fire_at - START) // SECOND, one.what) for one in reversed(found)]

    async def missed(self) -> list[tuple[int, int]]:
        """(seconds after the start, until when others were missed with it) of those with which some were."""
        found = await self.stage.store.read(schedules.fires, (await self.find()).id, 1 << 62, 100)
        return [
            ((one.fire_at - START) // SECOND, (one.missed_until - START) // SECOND)
            for one in reversed(found)
            if one.missed_until is not None
        ]

    async def due(self, after: int) -> list[Promoted]:
        """Promotes what is due so long after the start, milliseconds, until nothing more is."""
        self.stage.now, done = START + after, list[Promoted]()
        for _ in range(20):
            due = [entry for entry, due in (await self.stage.waiting()).items() if due <= self.stage.now]
            if not due:
                return done
            done += await self.stage.promote(*due)
        return done

    async def counts(self) -> tuple[int, int, int, int]:
        state: TopicState = await self.stage.state(self.topic)
        assert state.pending == self.stage.count("delay")
        return state.accepted, state.streamed, state.replaced, state.pending


@pytest.fixture
async def rounds(stage: Stage) -> Rounds:
    one = Rounds(stage, await stage.topic())
    stage.store.courses = course_of
    return one


class TestTurns:
    async def test_one_message_waits(self, rounds: Rounds) -> None:
        result, row = await rounds.put(key="k", headers={"a": "b"})
        assert result == "made"
        assert row is not None
        assert (row.next_at, row.revision, row.paused) == (START + MINUTE, START, 0)
        assert row == await rounds.find()
        assert await rounds.stage.waiting() == {row.next_id: START + MINUTE}
        assert rounds.armed == [Armed(START + MINUTE, row.next_id or 0, rounds.topic.id)]
        found = await rounds.stage.found(row.next_id or 0)
        assert (found.state, found.key, found.body) == ("scheduled", "k", b'{"a":1}')
        assert msgspec.json.decode(found.headers or b"") == {
            "a": "b",
            "tarry-schedule": "daily",
            "tarry-fire-at": format_time(START + MINUTE),
        }

    async def test_its_turn_puts_the_next_in_its_place(self, rounds: Rounds) -> None:
        await rounds.put()
        rounds.armed.clear()
        for nth in range(1, 4):
            (sent,) = await rounds.due(nth * MINUTE)
            row = await rounds.find()
            assert (row.last_at, row.last_id, row.next_at) == (
                START + nth * MINUTE,
                sent.entry,
                START + (nth + 1) * MINUTE,
            )
            assert await rounds.stage.waiting() == {row.next_id: row.next_at}
        assert len(rounds.armed) == 3, "who turns the wheel hears of each"
        assert await rounds.fires() == [(60, "fired"), (120, "fired"), (180, "fired")]
        assert await rounds.counts() == (4, 3, 0, 1)
        times = rounds.stage.column("SELECT deliver_at FROM message ORDER BY id")
        assert times == [START + nth * MINUTE for nth in range(1, 4)]

    async def test_what_comes_at_nearly_the_same_time_has_its_turn_together(self, rounds: Rounds) -> None:
        for name, late in (("a", 0), ("b", 1), ("c", 66), ("d", 67)):
            await rounds.put(name, starts_at=format_time(START + MINUTE + late))
        await rounds.put("e", starts_at=format_time(START + MINUTE + 1), ordering_key="k")
        assert [one.due - START - MINUTE for one in rounds.armed] == [0, 66, 66, 133, 1]
        assert len(await rounds.due(MINUTE + 65)) == 2
        assert [len(await rounds.due(MINUTE + late)) for late in (66, 132, 133)] == [2, 0, 1]
        found = [await rounds.stage.found(one.id) for one in rounds.armed]
        # Each says its own time, and the next is as far behind that as ever.
        assert [one.deliver_at - START for one in found[:5]] == [MINUTE + late for late in (0, 1, 66, 67, 1)]
        next_at = {name: (await rounds.find(name)).next_at for name in "abcde"}
        assert [(at or 0) - START - 2 * MINUTE for at in next_at.values()] == [0, 1, 66, 67, 1]

    async def test_on_an_ordered_topic_nothing_is_put_off(self, rounds: Rounds) -> None:
        """What has no key is an order too: it comes at its own time, from the shard of its queue, along with what is
        earlier."""
        stage = rounds.stage
        rounds.topic = topic = await stage.topic("log", ordered=True)
        for name, late in (("a", 1), ("b", 66), ("c", 67)):
            await rounds.put(name, starts_at=format_time(START + MINUTE + late))
        assert [one.due - START - MINUTE for one in rounds.armed] == [1, 66, 67]
        assert {shard_of(one.id) for one in rounds.armed} == {topic.queues[0].id % SHARDS}
        (plain,) = ids_of(await stage.publish(stage.draft(topic, delay=MINUTE + 66)))
        ids = [one.id for one in rounds.armed]
        stage.now += 2 * MINUTE - 1
        assert {one.entry for one in await stage.promote(plain)} == {*ids[:2], plain}
        assert stage.column("SELECT id FROM message ORDER BY `offset`") == [*ids[:2], plain]

    @pytest.mark.parametrize("seed", range(4))
    async def test_on_an_ordered_topic_what_is_late_takes_its_place(self, rounds: Rounds, seed: int) -> None:
        """Several fire times have passed; the messages of all but the first are made while the others are under way."""
        stage, dice = rounds.stage, random.Random(seed)
        rounds.topic = topic = await stage.topic("log", queues=2, ordered=True)
        await rounds.put("a", every=SECOND, misfire={"catch_up": "1h"})
        await rounds.put("b", every=1_700, jitter="1s", misfire={"catch_up": "1h"})
        await rounds.put("keyed", every=2 * SECOND, ordering_key="k", misfire={"catch_up": "1h"})
        for _ in range(200):
            at = dice.randrange(30 * SECOND)
            key = dice.choice([None, "k", "l"])
            await stage.publish(stage.draft(topic, delay=at, queue=0, ordering_key=key))
        stage.now = START + 30 * SECOND
        if seed % 2:  # whoever has whichever of them looks back as far as there is something
            stage.store.orders = Orders(lambda _shard, _due: 0)
        while late := sorted((due, entry) for entry, due in (await stage.waiting()).items() if due <= stage.now):
            (dice.shuffle(late) if seed % 2 else None)
            some = [entry for _, entry in late[: dice.choice([1, 7, 100])]]
            promoted, held, *_ = await stage.store.promote_some(some, stage.now, dice.choice([None, ()]), whole=True)
            assert {one.entry for one in promoted}.isdisjoint(id_ for ids in held.values() for id_ in ids)
        rows = stage.tables.rows("SELECT queue_id, ordering_key, deliver_at FROM message ORDER BY queue_id, `offset`")
        orders: dict[tuple[Any, Any], list[int]] = {}
        for queue_id, key, deliver_at in rows:
            orders.setdefault((queue_id, key), []).append(deliver_at)
        for times in orders.values():
            assert times == sorted(times)
        assert len(rows) == 200 + 30 + 15 + 17
        assert rounds.stage.count("delay") == 3
        await stage.counts(topic, accepted=len(rows) + 3, streamed=len(rows), pending=3)

    async def test_before_its_time_and_twice(self, rounds: Rounds) -> None:
        row = await rounds.made()
        assert await rounds.stage.promote(row.next_id or 0) == []
        rounds.stage.now += MINUTE
        assert len(await rounds.stage.promote(row.next_id or 0)) == 1
        assert await rounds.stage.promote(row.next_id or 0) == []
        assert rounds.stage.count("message") == 1

    async def test_beside_plain_messages(self, rounds: Rounds) -> None:
        for nth in range(5):
            await rounds.put(f"it-{nth}")
        await rounds.stage.schedule(rounds.topic, *range(MINUTE, MINUTE + 5))
        assert len(await rounds.due(MINUTE + 10)) == 10
        assert await rounds.counts() == (15, 10, 0, 5)

    async def test_without_a_calendar_they_stay(self, rounds: Rounds) -> None:
        await rounds.put()
        await rounds.stage.schedule(rounds.topic, MINUTE)
        rounds.stage.store.courses = None
        assert len(await rounds.due(MINUTE)) == 1
        assert rounds.stage.count("delay") == 1

    async def test_to_the_end(self, rounds: Rounds) -> None:
        await rounds.put(ends_at=format_time(START + 2 * MINUTE))
        assert len(await rounds.due(MINUTE)) == 1
        assert len(await rounds.due(2 * MINUTE)) == 1
        row = await rounds.find()
        assert (row.next_at, row.next_id, rounds.stage.count("delay")) == (None, None, 0)

    async def test_jitter(self, rounds: Rounds) -> None:
        row = await rounds.made(jitter="30s")
        ((_, due),) = (await rounds.stage.waiting()).items()
        assert START + MINUTE < due < START + MINUTE + 30 * SECOND
        assert row.next_at == START + MINUTE


class TestLate:
    async def test_once(self, rounds: Rounds) -> None:
        await rounds.put()
        assert len(await rounds.due(HOUR + 30 * SECOND)) == 1
        assert (await rounds.find()).next_at == START + HOUR + MINUTE
        assert await rounds.missed() == [(60, 3630)]
        await rounds.due(HOUR + MINUTE)
        assert await rounds.missed() == [(60, 3630)]

    async def test_skip(self, rounds: Rounds) -> None:
        await rounds.put(misfire="skip")
        await rounds.due(HOUR + 30 * SECOND)
        assert await rounds.fires() == [(60, "missed"), (3600, "fired")]
        assert await rounds.missed() == [(60, 3570)]
        assert await rounds.counts() == (3, 1, 1, 1)

    async def test_catching_up(self, rounds: Rounds) -> None:
        await rounds.put(misfire={"catch_up": "3m"}, key="k")
        await rounds.due(HOUR)
        assert await rounds.fires() == [(60, "missed"), *((3600 - 60 * nth, "fired") for nth in (3, 2, 1, 0))]
        assert await rounds.missed() == [(60, 3420)]
        assert rounds.stage.count("label") == 5, "four in the stream, and the one that waits"


class TestOverlap:
    async def test_skip_while_the_one_before_is_unsettled(self, rounds: Rounds) -> None:
        group = await rounds.stage.group(rounds.topic)
        await rounds.put(overlap="skip", group="billing")
        await rounds.due(MINUTE)
        await rounds.due(2 * MINUTE)  # nobody has claimed it
        claim = await rounds.stage.claim(group, lease=HOUR)
        await rounds.due(3 * MINUTE)  # it is in a claim
        await rounds.stage.fail(group, claim, retry_after=2 * MINUTE)
        await rounds.due(4 * MINUTE)  # it is on its rung
        await rounds.due(5 * MINUTE)  # and comes back, and lies there
        await rounds.stage.ack(group, await rounds.stage.claim(group))
        await rounds.due(6 * MINUTE)
        assert await rounds.fires() == [(60, "fired"), *((60 * n, "overlapped") for n in (2, 3, 4, 5)), (360, "fired")]
        assert (await rounds.counts())[2] == 4

    async def test_a_group_that_is_not_there_has_nothing_unsettled(self, rounds: Rounds) -> None:
        await rounds.put(overlap="skip", group="billing")
        await rounds.due(MINUTE)
        await rounds.due(2 * MINUTE)
        assert await rounds.fires() == [(60, "fired"), (120, "fired")]


class TestKeptBack:
    """`queue_one`: at most one, until the one before is settled."""

    @pytest.fixture
    async def group(self, rounds: Rounds) -> Group:
        """Which has not settled the first, when the second is due."""
        group = await rounds.stage.group(rounds.topic)
        await rounds.put(overlap="queue_one", group="billing", key="k")
        await rounds.due(MINUTE)
        assert await rounds.due(2 * MINUTE) == []
        return group

    async def test_until_the_one_before_is_settled(self, rounds: Rounds, group: Group) -> None:
        second = (await rounds.find()).next_id
        assert await rounds.stage.waiting() == {second: START + 2 * MINUTE + SECOND}
        assert await rounds.fires() == [(60, "fired"), (120, "kept")]
        claim = await rounds.stage.claim(group, lease=HOUR)
        assert await rounds.due(2 * MINUTE + 30 * SECOND) == []  # it is in a claim
        await rounds.stage.ack(group, claim)
        (sent,) = await rounds.due(2 * MINUTE + 33 * SECOND)
        assert sent.entry == second, "it has kept its id"
        row = await rounds.find()
        assert (row.last_id, row.next_at) == (second, START + 3 * MINUTE)
        assert await rounds.fires() == [(60, "fired"), (120, "fired")]
        assert await rounds.counts() == (3, 2, 0, 1), "to wait on counts nothing"
        found = await rounds.stage.found(second or 0)
        assert msgspec.json.decode(found.headers or b"")["tarry-fire-at"] == format_time(START + 2 * MINUTE)
        assert (rounds.stage.count("moved"), rounds.stage.count("label")) == (0, 3)

    async def test_those_that_come_meanwhile_are_left_out(self, rounds: Rounds, group: Group) -> None:
        for nth in (3, 4, 5):
            assert await rounds.due(nth * MINUTE) == []
        assert await rounds.fires() == [(60, "fired"), (120, "kept"), *((60 * n, "overlapped") for n in (3, 4, 5))]
        await rounds.stage.ack(group, await rounds.stage.claim(group))
        assert len(await rounds.due(6 * MINUTE)) == 1
        assert await rounds.due(7 * MINUTE) == [], "the second is unsettled now"
        told = [(60, "fired"), (120, "fired"), *((60 * n, "overlapped") for n in (3, 4, 5, 6)), (420, "kept")]
        assert await rounds.fires() == told

    async def test_the_looks_grow_rarer(self, rounds: Rounds, group: Group) -> None:
        rounds.armed.clear()
        for after in (2 * MINUTE + SECOND, 2 * MINUTE + 50 * SECOND, HOUR):
            await rounds.due(after)
        waits = [one.due - START for one in rounds.armed]
        assert waits == [2 * MINUTE + 2 * SECOND, 2 * MINUTE + 55 * SECOND, HOUR + 10 * SECOND]
        assert not any(one.fresh for one in rounds.armed), "it is no other message"

    @pytest.mark.parametrize("misfire", ["skip", "once"])
    async def test_what_was_kept_back_is_never_too_late(self, rounds: Rounds, misfire: str) -> None:
        group = await rounds.stage.group(rounds.topic)
        await rounds.put(overlap="queue_one", group="billing", misfire=misfire)
        await rounds.due(MINUTE)
        await rounds.due(2 * MINUTE)
        await rounds.stage.ack(group, await rounds.stage.claim(group))
        assert len(await rounds.due(4 * MINUTE + 1)) == 1
        assert await rounds.fires() == [(60, "fired"), (120, "fired"), (180, "overlapped"), (240, "overlapped")]

    async def test_of_very_many_that_came_meanwhile_some_are_told(self, rounds: Rounds, group: Group) -> None:
        await rounds.due(5 * HOUR + 1)
        row = await rounds.find()
        assert (row.next_at, row.last_at) == (START + 2 * MINUTE, START + 5 * HOUR + 1)
        assert rounds.stage.count("fire") == 102
        last_told = 2 * 60 + 100 * 60
        assert await rounds.missed() == [(last_told, 5 * 3600)]
        await rounds.stage.ack(group, await rounds.stage.claim(group))
        assert len(await rounds.due(5 * HOUR + 11 * SECOND)) == 1
        assert (await rounds.find()).next_at == START + 5 * HOUR + MINUTE

    async def test_one_that_stands_for_many_that_were_late(self, rounds: Rounds) -> None:
        group = await rounds.stage.group(rounds.topic)
        await rounds.put(overlap="queue_one", group="billing")
        await rounds.due(MINUTE)
        assert await rounds.due(HOUR + SECOND) == []
        await rounds.stage.ack(group, await rounds.stage.claim(group))
        assert len(await rounds.due(HOUR + 20 * SECOND)) == 1
        assert await rounds.fires() == [(60, "fired"), (120, "fired")]
        assert await rounds.missed() == [(120, 3601)]
        assert (await rounds.find()).next_at == START + HOUR + MINUTE

    async def test_the_last_of_all(self, rounds: Rounds) -> None:
        group = await rounds.stage.group(rounds.topic)
        await rounds.put(overlap="queue_one", group="billing", ends_at=format_time(START + 2 * MINUTE))
        await rounds.due(MINUTE)
        assert await rounds.due(2 * MINUTE) == []
        await rounds.stage.ack(group, await rounds.stage.claim(group))
        assert len(await rounds.due(3 * MINUTE)) == 1
        row = await rounds.find()
        assert (row.next_at, row.next_id, rounds.stage.count("delay")) == (None, None, 0)

    async def test_a_change_takes_its_place(self, rounds: Rounds, group: Group) -> None:
        await rounds.pause()
        assert await rounds.fires() == [(60, "fired"), (120, "overlapped")]
        assert rounds.stage.count("delay") == rounds.stage.count("moved") == 0
        row = await rounds.resume()
        assert row.next_at == START + 3 * MINUTE

    async def test_it_may_be_cancelled(self, rounds: Rounds, group: Group) -> None:
        row = await rounds.find()
        await rounds.due(3 * MINUTE)
        await rounds.stage.store.cancel([row.next_id or 0], rounds.stage.now)
        assert await rounds.mend() == 1
        assert await rounds.fires() == [(60, "fired"), (120, "cancelled"), (180, "overlapped")]
        assert (await rounds.find()).next_at == START + 4 * MINUTE

    async def test_to_make_up_for_what_came_meanwhile(self, rounds: Rounds, group: Group) -> None:
        await rounds.due(3 * MINUTE)
        past = [START + nth * MINUTE for nth in (1, 2, 3)]
        assert await rounds.backfill(*past) == past[2:], "the first was sent, and the second will be"
        assert await rounds.fires() == [(60, "fired"), (120, "kept"), (180, "backfilled")]


class TestChange:
    async def test_the_same_again_changes_nothing(self, rounds: Rounds) -> None:
        _, first = await rounds.put()
        rounds.stage.now += SECOND
        assert await rounds.put() == ("kept", first)

    async def test_another_takes_its_place(self, rounds: Rounds) -> None:
        first = await rounds.made()
        rounds.stage.now += 30 * SECOND
        result, second = await rounds.put(every=2 * MINUTE)
        assert second is not None
        assert (result, second.next_at, second.revision) == ("changed", START + 2 * MINUTE, rounds.stage.now)
        assert rounds.dropped == [(START + MINUTE, first.next_id)], "who turns the wheel hears of it"
        assert await rounds.stage.waiting() == {second.next_id: START + 2 * MINUTE}
        assert await rounds.counts() == (2, 0, 1, 1)
        assert rounds.stage.count("cancelled") == 0

    async def test_an_older_message_that_could_not_be_locked_is_dropped_at_its_turn(self, rounds: Rounds) -> None:
        await rounds.put(key="k")
        rounds.stage.tables.rows("UPDATE schedule SET next_id = NULL")
        await rounds.due(MINUTE)
        assert rounds.stage.count("message") == rounds.stage.count("delay") == rounds.stage.count("label") == 0
        assert await rounds.counts() == (1, 0, 1, 0)

    async def test_a_fire_time_that_has_been_does_not_come_again(self, rounds: Rounds) -> None:
        await rounds.put()
        await rounds.due(MINUTE)
        rounds.stage.now = START + MINUTE - 5  # another server's clock
        row = await rounds.made(body=2)
        assert row.next_at == START + 2 * MINUTE

    @pytest.mark.parametrize("condition", [{"revision": START - 1}, {"absent": True}])
    async def test_conditions(self, rounds: Rounds, condition: dict[str, Any]) -> None:
        _, row = await rounds.put()
        assert await rounds.put(body=2, **condition) == ("unmatched", row)
        assert (await rounds.put(body=2, revision=START))[0] == "changed"

    async def test_a_revision_of_what_is_not_there(self, rounds: Rounds) -> None:
        assert await rounds.put(revision=1) == ("unmatched", None)

    async def test_pause_and_resume(self, rounds: Rounds) -> None:
        await rounds.put()
        row = await rounds.pause()
        assert row is not None
        assert (row.paused, row.next_at, row.next_id, rounds.stage.count("delay")) == (1, None, None, 0)
        assert await rounds.pause() == row
        assert await rounds.due(HOUR) == []
        assert (await rounds.put(body=3))[1] == await rounds.find(), "a change leaves it paused"
        row = await rounds.resume()
        assert row.next_at == START + HOUR + MINUTE, "what was in between is left out"
        assert await rounds.counts() == (2, 0, 1, 1)

    async def test_made_paused_and_resumed_by_a_change(self, rounds: Rounds) -> None:
        assert (await rounds.made(paused=True)).next_at is None
        result, row = await rounds.put(paused=False)
        assert row is not None
        assert (result, row.next_at) == ("changed", START + MINUTE)

    async def test_remove(self, rounds: Rounds) -> None:
        await rounds.put()
        await rounds.due(MINUTE)
        assert not await rounds.remove(revision=1)
        assert await rounds.remove(revision=START)
        assert [rounds.stage.count(table) for table in ("schedule", "fire", "delay")] == [0, 0, 0]
        assert await rounds.counts() == (2, 1, 1, 0)


class TestDue:
    """A fire time has come and its message waits still, for its jitter or its turn: no change loses it."""

    @pytest.fixture
    async def waiting(self, rounds: Rounds) -> int:
        """The message of the first minute, due some seconds later by its jitter; its time has come."""
        await rounds.put(jitter="40s", key="k")
        ((id_, due),) = (await rounds.stage.waiting()).items()
        assert due > START + MINUTE + SECOND
        rounds.stage.now = START + MINUTE + 1
        rounds.dropped.clear()
        return id_

    @pytest.mark.parametrize(
        ("said", "then"),
        [
            ({"body": 2, "jitter": "40s"}, 120),
            ({"every": 7 * SECOND}, 63),
            ({"every": None, "cron": "*/5 * * * *", "timezone": "Asia/Kolkata"}, 100),
            ({"jitter": "50s"}, 120),
            ({"misfire": "skip"}, 120),
            ({"overlap": "skip", "group": "billing"}, 120),
            ({"ends_at": format_time(START + MINUTE)}, None),
        ],
    )
    async def test_put(self, rounds: Rounds, waiting: int, said: dict[str, Any], then: int | None) -> None:
        result, row = await rounds.put(**said)
        assert row is not None
        assert result == "changed"
        assert await rounds.fires() == [(60, "fired")]
        assert row.next_at == (None if then is None else START + then * SECOND)
        assert waiting in await rounds.stage.waiting(), "it goes at its time"
        assert rounds.dropped == [], "and the wheel has it"
        sent = await rounds.due(MINUTE + 41 * SECOND)
        assert waiting in [one.entry for one in sent]
        found = await rounds.stage.found(waiting)
        assert (found.state, found.body, found.key) == ("published", b'{"a":1}', "k"), "as it was"
        assert (await rounds.counts())[2] == 0

    async def test_put_into_another_topic(self, rounds: Rounds, waiting: int) -> None:
        other = await rounds.stage.topic("others")
        await rounds.put(into=other)
        (sent,) = await rounds.due(MINUTE + 41 * SECOND)
        assert (sent.entry, sent.queue_id) == (waiting, rounds.topic.queues[0].id)
        (sent,) = await rounds.due(2 * MINUTE)
        assert sent.queue_id == other.queues[0].id
        assert await rounds.fires() == [(60, "fired"), (120, "fired")]

    async def test_put_again_and_again(self, rounds: Rounds) -> None:
        """Whoever saves it each 40 ms loses none of one-second fires, wherever in the turn that falls."""
        await rounds.put(every=SECOND)
        for nth in range(1, 76):
            rounds.stage.now = START + nth * 40
            if nth % 7:
                await rounds.put(every=SECOND, body=nth)
            else:
                await rounds.stage.fall_due()
        await rounds.due(3 * SECOND)
        assert await rounds.fires() == [(1, "fired"), (2, "fired"), (3, "fired")]
        assert rounds.stage.count("message") == 3

    async def test_put_at_the_millisecond(self, rounds: Rounds) -> None:
        for late, told in ((-1, []), (0, [(60, "fired")])):
            await rounds.put(every=MINUTE, body=late)
            rounds.stage.now = START + MINUTE + late
            await rounds.put(every=MINUTE, body=[late])
            assert await rounds.fires() == told

    async def test_put_where_more_have_come(self, rounds: Rounds) -> None:
        """The server was held up: what has come since goes, and what is too late is told, by what it said until now."""
        await rounds.put(every=SECOND)
        rounds.stage.now = START + 5 * SECOND
        row = await rounds.made(every=SECOND, body=2)
        assert row.next_at == START + 6 * SECOND
        assert await rounds.fires() == [(nth, "fired") for nth in range(1, 6)]
        assert len(await rounds.due(5 * SECOND)) == 5
        rounds.stage.now = START + HOUR
        await rounds.put(every=SECOND, body=3)
        assert (await rounds.fires())[5:] == [(6, "fired")]
        assert await rounds.missed() == [(6, 3600)]

    async def test_put_of_what_is_too_late(self, rounds: Rounds) -> None:
        await rounds.put(misfire="skip")
        rounds.stage.now = START + 150 * SECOND
        await rounds.put(misfire="skip", body=2)
        assert await rounds.fires() == [(60, "missed"), (120, "fired")]
        assert len(await rounds.due(150 * SECOND)) == 1

    async def test_put_while_the_one_before_is_unsettled(self, rounds: Rounds) -> None:
        await rounds.stage.group(rounds.topic)
        await rounds.put(overlap="skip", group="billing")
        await rounds.due(MINUTE)
        rounds.stage.now = START + 2 * MINUTE
        await rounds.put()
        assert await rounds.fires() == [(60, "fired"), (120, "overlapped")]

    async def test_put_with_the_pause(self, rounds: Rounds, waiting: int) -> None:
        await rounds.put(body=2, paused=True)
        assert await rounds.fires() == [(60, "cancelled")]
        assert await rounds.stage.waiting() == {}

    async def test_pause(self, rounds: Rounds, waiting: int) -> None:
        await rounds.pause()
        assert await rounds.fires() == [(60, "cancelled")]
        assert (await rounds.stage.found(waiting)).state == "cancelled"
        assert [id_ for _, id_ in rounds.dropped] == [waiting]
        row = await rounds.resume()
        assert row.next_at == START + 2 * MINUTE
        assert await rounds.due(MINUTE + 41 * SECOND) == []
        assert await rounds.backfill(START + MINUTE) == [START + MINUTE], "it may be made up for"

    async def test_pause_where_more_have_come(self, rounds: Rounds) -> None:
        await rounds.put(every=SECOND)
        rounds.stage.now = START + 5 * SECOND
        await rounds.pause()
        assert await rounds.fires() == [(1, "cancelled")]
        assert await rounds.missed() == [(1, 5)], "and those behind it until then"

    async def test_remove(self, rounds: Rounds, waiting: int) -> None:
        assert await rounds.remove()
        assert [(one.fire_at, one.what) for one in rounds.unsent] == [(START + MINUTE, "cancelled")]
        assert (await rounds.stage.found(waiting)).state == "cancelled"
        await rounds.put()
        assert await rounds.remove()
        assert rounds.unsent == [], "the time of that one had not come"

    async def test_a_run_and_a_backfill_leave_it(self, rounds: Rounds, waiting: int) -> None:
        await rounds.run()
        assert await rounds.backfill(START + MINUTE) == [], "it comes by itself"
        assert waiting in [one.entry for one in await rounds.due(MINUTE + 41 * SECOND)]
        assert await rounds.fires() == [(60, "fired"), (60, "run")]

    async def test_a_run_takes_no_fire_time(self, rounds: Rounds) -> None:
        """Of those that have come while the server is behind, the run at the same millisecond is none."""
        await rounds.put(every=SECOND)
        rounds.stage.now = START + 2 * SECOND
        await rounds.run()
        await rounds.due(2 * SECOND)
        assert await rounds.fires() == [(1, "fired"), (2, "fired"), (2, "run")]

    @pytest.mark.parametrize("change", ["put", "pause", "remove"])
    async def test_one_that_was_cancelled_just_before(self, rounds: Rounds, waiting: int, change: str) -> None:
        """The schedule has not heard of it yet."""
        await rounds.stage.store.cancel([waiting], rounds.stage.now)
        if change == "remove":
            assert await rounds.remove()
            assert [one.what for one in rounds.unsent] == ["cancelled"]
            return
        await (rounds.put(body=2) if change == "put" else rounds.pause())
        assert await rounds.fires() == [(60, "cancelled")]

    async def test_one_that_was_put_off_by_hand(self, rounds: Rounds, waiting: int) -> None:
        await rounds.stage.store.write(timers.reschedule, [(waiting, START + HOUR)], rounds.stage.now)
        await rounds.put(every="2h")
        assert await rounds.fires() == [(60, "fired")]
        assert [one.entry for one in await rounds.due(HOUR)] == [waiting]

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            ({"overlap": "queue_one", "group": "billing", "body": 2}, "kept"),
            ({"overlap": "skip", "group": "billing"}, "overlapped"),
            ({"overlap": "queue_one", "group": "another"}, "fired"),
            ({}, "fired"),
        ],
    )
    async def test_one_that_is_kept_back(self, rounds: Rounds, said: dict[str, Any], told: str) -> None:
        group = await rounds.stage.group(rounds.topic)
        await rounds.put(overlap="queue_one", group="billing")
        await rounds.due(MINUTE)
        await rounds.due(2 * MINUTE)
        second = (await rounds.find()).next_id
        assert await rounds.fires() == [(60, "fired"), (120, "kept")]
        rounds.stage.now += 10 * SECOND
        await rounds.put(**said)
        assert await rounds.fires() == [(60, "fired"), (120, told)]
        await rounds.stage.ack(group, await rounds.stage.claim(group))
        sent = [one.entry for one in await rounds.due(2 * MINUTE + 20 * SECOND)]
        assert sent == ([] if told == "overlapped" else [second])
        if told == "fired":
            assert (await rounds.find()).last_id == second
        assert len(await rounds.due(3 * MINUTE)) == (told == "overlapped" or not said or said["group"] == "another")

    async def test_one_that_is_to_be_kept_back_keeps_its_jitter(self, rounds: Rounds) -> None:
        group = await rounds.stage.group(rounds.topic)
        await rounds.put(overlap="queue_one", group="billing", jitter="40s")
        await rounds.due(MINUTE + 41 * SECOND)
        ((_, due),) = (await rounds.stage.waiting()).items()
        rounds.stage.now = START + 2 * MINUTE
        await rounds.put(overlap="queue_one", group="billing", body=2)
        assert await rounds.fires() == [(60, "fired"), (120, "kept")]
        assert list((await rounds.stage.waiting()).values()) == [due]
        await rounds.stage.ack(group, await rounds.stage.claim(group))
        assert len(await rounds.due(due - START)) == 1
        assert await rounds.fires() == [(60, "fired"), (120, "fired")]

    async def test_changes_beside_promotion(self, rounds: Rounds) -> None:
        """Two servers have what is due in hand, and a third saves the schedule."""
        await rounds.put(every=SECOND)
        for nth in range(1, 31):
            rounds.stage.now = START + nth * SECOND
            await at_once(rounds.stage.fall_due, partial(rounds.put, every=SECOND, body=nth), rounds.stage.fall_due)
        await rounds.due(30 * SECOND)
        assert await rounds.fires() == [(nth, "fired") for nth in range(1, 31)]
        assert rounds.stage.count("message") == 30


SENT = ("fired", "run", "backfilled")


@attrs.define
class Lives:
    """Schedules of one name that are changed at random, and the fire times that have come while one was active."""

    rounds: Rounds
    chance: random.Random
    group: Group
    said: dict[str, Any] = attrs.field(factory=dict[str, Any])
    made_at: int = START
    active: bool = False
    there: bool = False
    passed: set[int] = attrs.field(factory=set[int])
    """Fire times."""

    async def step(self) -> None:
        steps = [self.put, self.put, self.wait, self.wait, self.turns, self.turns, self.pause, self.resume]
        await self.chance.choice([*steps, self.remove, self.run, self.backfill, self.cancel, self.settle, self.again])()

    async def wait(self) -> None:
        """Time passes, and nobody promotes anything meanwhile."""
        before = self.rounds.stage.now
        self.rounds.stage.now += self.chance.choice([1, 66, 500, SECOND, 5 * SECOND, 20 * SECOND, 100 * SECOND])
        every = self.said.get("every", MINUTE)
        if self.active:
            behind = [self.made_at + nth * every for nth in range((before - self.made_at) // every + 1, 1 << 40)[:200]]
            self.passed |= {at for at in behind if at <= self.rounds.stage.now}

    async def turns(self) -> None:
        await self.rounds.due(self.rounds.stage.now - START)

    async def put(self) -> None:
        every = self.chance.choice([SECOND, 10 * SECOND, MINUTE])
        self.said = {"every": every, "body": self.chance.randrange(3), "ordering_key": self.chance.choice([None, "k"])}
        self.said["jitter"] = self.chance.choice([None, every // 2])
        self.said["misfire"] = self.chance.choice([None, "skip", {"catch_up": "5m"}])
        self.said["overlap"] = self.chance.choice([None, None, "skip", "queue_one"])
        self.said["group"] = self.said["overlap"] and "billing"
        if not self.there:
            self.there = self.active = True
            self.made_at = self.rounds.stage.now
        await self.rounds.put(**self.said)

    async def again(self) -> None:
        if self.there:
            await self.rounds.put(**self.said)

    async def pause(self) -> None:
        self.active = False
        await self.rounds.pause()

    async def resume(self) -> None:
        self.active = self.there
        await self.rounds.pause(False)

    async def remove(self) -> None:
        if self.there:
            fires = await self.told()
            await self.rounds.remove()
            self.check([*fires, *self.rounds.unsent])
            self.there = self.active = False
            self.passed = set()

    async def run(self) -> None:
        await self.rounds.run()

    async def backfill(self) -> None:
        await self.rounds.backfill(*sorted(self.passed)[-3:])

    async def cancel(self) -> None:
        if self.there and (id_ := (await self.rounds.find()).next_id) is not None:
            await self.rounds.stage.store.cancel([id_], self.rounds.stage.now)

    async def settle(self) -> None:
        if claim := await self.rounds.stage.claim_some(self.group, 100):
            await self.rounds.stage.ack(self.group, claim)

    async def told(self) -> list[Fire]:
        row = await self.rounds.find()
        return await self.rounds.stage.store.read(schedules.fires, row.id, 1 << 62, 10_000)

    def check(self, fires: list[Fire]) -> None:
        """Each that has come is told."""
        told = {one.fire_at for one in fires}
        missed = [range(one.fire_at, one.missed_until or 0) for one in fires]
        assert [at for at in sorted(self.passed - told) if not any(at in some for some in missed)] == []

    async def end(self) -> None:
        """All that waits has its turn; then what was sent has its message, once."""
        if not self.there:
            return
        await self.pause()
        fires = await self.told()
        self.check(fires)
        assert not [one for one in fires if one.what == "kept"]
        self.rounds.stage.now += 2 * MINUTE
        await self.turns()
        assert self.rounds.stage.count("delay") == 0
        ids = [one.message_id for one in fires if one.what in SENT]
        assert len(set(ids)) == len(ids)
        gone = set(self.rounds.stage.column("SELECT id FROM message UNION ALL SELECT id FROM cancelled"))
        assert set(ids) <= gone
        state = await self.rounds.stage.state(self.rounds.topic)
        done = state.streamed + state.cancelled + state.replaced + state.suppressed
        assert (state.accepted, state.pending) == (done, 0)


@pytest.mark.parametrize("seed", range(4))
async def test_random_changes_lose_nothing(rounds: Rounds, seed: int) -> None:
    """What has come while a schedule was active is told once, and what was sent has its message."""
    lives = Lives(rounds, random.Random(seed), await rounds.stage.group(rounds.topic))
    for _ in range(60):
        await lives.step()
    await lives.end()


class TestByHand:
    async def test_run_while_paused(self, rounds: Rounds) -> None:
        await rounds.put(paused=True)
        first, second = await rounds.run(), await rounds.run()
        assert first is not None
        assert second is not None
        assert (first[1], second[1]) == (START, START + 1)
        assert len(await rounds.due(0)) == 2
        assert await rounds.fires() == [(0, "run"), (0, "run")]
        assert (await rounds.find()).next_at is None

    async def test_backfill_sends_what_was_not_sent(self, rounds: Rounds) -> None:
        await rounds.put(misfire="skip")
        await rounds.due(3 * MINUTE + 30 * SECOND)  # misses the first two
        past = [START + nth * MINUTE for nth in range(-2, 5)]
        assert await rounds.backfill(*past) == [at for at in past if at not in (START + 3 * MINUTE, START + 4 * MINUTE)]
        assert await rounds.backfill(*past) == []
        assert await rounds.backfill() == []
        assert len(await rounds.due(3 * MINUTE + 31 * SECOND)) == 5
        assert {what for at, what in await rounds.fires() if at != 180} == {"backfilled"}

    async def test_of_none(self, rounds: Rounds) -> None:
        assert await rounds.run() is None
        assert await rounds.backfill(START) is None
        assert await rounds.pause() is None


class TestMend:
    async def test_after_a_cancel_it_goes_on(self, rounds: Rounds) -> None:
        row = await rounds.made()
        await rounds.stage.store.cancel([row.next_id or 0], rounds.stage.now)
        rounds.stage.now += MINUTE + 10 * SECOND
        assert await rounds.mend() == 1
        assert await rounds.fires() == [(60, "cancelled")]
        assert await rounds.missed() == []
        assert (await rounds.find()).next_at == START + 2 * MINUTE
        await rounds.stage.store.cancel([(await rounds.find()).next_id or 0], rounds.stage.now)
        rounds.stage.now += HOUR
        assert await rounds.mend() == 1
        assert await rounds.missed() == [(120, 3670)]

    async def test_what_is_cancelled_ahead_does_not_come_again(self, rounds: Rounds) -> None:
        row = await rounds.made(every="1h")
        await rounds.stage.store.cancel([row.next_id or 0], rounds.stage.now)
        ids = [row.next_id or 0]
        assert await rounds.stage.store.change(lambda tx, firing: schedules.mend(tx, firing, ids), START) == 1
        assert await rounds.fires() == [(3600, "cancelled")]
        assert (await rounds.find()).next_at == START + 2 * HOUR
        await rounds.pause()
        await rounds.resume()
        assert (await rounds.find()).next_at == START + 2 * HOUR
        # Of another specification it is another fire time.
        await rounds.put(every="1m")
        assert (await rounds.find()).next_at == START + MINUTE
        for minute in range(1, 61):
            await rounds.due(minute * MINUTE)
        assert await rounds.fires() == [(60 * minute, "fired") for minute in range(1, 61)]

    async def test_after_somebody_s_own_sql_made_its_message_a_plain_one(self, rounds: Rounds) -> None:
        row = await rounds.made()
        rounds.stage.tables.rows("UPDATE delay SET special = 0")
        await rounds.due(MINUTE)
        rounds.stage.now += 10 * SECOND
        assert await rounds.mend() == 1
        again = await rounds.find()
        assert (again.last_id, again.next_at) == (row.next_id, START + 2 * MINUTE)
        assert await rounds.fires() == [(60, "fired")]
        assert await rounds.mend() == 0

    async def test_what_waits_is_left_alone(self, rounds: Rounds) -> None:
        row = await rounds.made()
        await rounds.stage.store.write(timers.reschedule, [(row.next_id or 0, START + HOUR)], rounds.stage.now)
        rounds.stage.now += 30 * MINUTE
        assert await rounds.mend() == 0

    async def test_behind_many_that_are_kept_back(self, rounds: Rounds) -> None:
        group = await rounds.stage.group(rounds.topic)
        for nth in range(5):
            await rounds.put(f"it-{nth}", overlap="queue_one", group=group.name)
        await rounds.put()
        await rounds.due(MINUTE)
        await rounds.due(2 * MINUTE)
        row = await rounds.find()
        await rounds.stage.store.cancel([row.next_id or 0], rounds.stage.now)
        rounds.stage.now = START + 4 * MINUTE
        assert await rounds.mend() == 1
        assert (await rounds.find()).last_at == START + 3 * MINUTE

    async def test_of_fire_times_the_latest_are_kept(self, rounds: Rounds) -> None:
        await rounds.put()
        for nth in range(1, 6):
            await rounds.due(nth * MINUTE)
        assert await rounds.stage.store.write(schedules.forget_fires, 0, 2, 100) == (3, None)
        assert await rounds.fires() == [(240, "fired"), (300, "fired")]

    async def test_with_an_archive_none_goes_that_it_has_not(self, rounds: Rounds) -> None:
        store, sql = rounds.stage.store, rounds.stage.tables.rows
        await rounds.put()
        for nth in range(1, 6):
            await rounds.due(nth * MINUTE)
        sql("INSERT INTO archived (group_id, queue_id, upto) VALUES (0, 0, 1)")
        assert await store.write(schedules.forget_fires, 0, 2, 100) == (0, None), "none is archived yet"
        sql(f"INSERT INTO archived (group_id, queue_id, upto) VALUES (1, 0, {START + 2 * MINUTE})")
        assert await store.write(schedules.forget_fires, 0, 2, 100) == (2, None)
        assert [at for at, _ in await rounds.fires()] == [180, 240, 300]
        assert sql("SELECT until FROM cleaned_until WHERE what = X'66697265'") == [(START + 2 * MINUTE,)]
        sql("DELETE FROM archived WHERE group_id = 0")
        assert await store.write(schedules.forget_fires, 0, 2, 100) == (1, None), "there is no archive any more"

    async def test_a_mark_of_fires_is_nobody_elses(self, rounds: Rounds) -> None:
        """Dead letters and cancelled messages wait for a mark of their own."""
        store = rounds.stage.store
        (receipt,) = await rounds.stage.publish(rounds.stage.draft(rounds.topic, delay=SECOND))
        await store.cancel([receipt.id], rounds.stage.now)
        rounds.stage.tables.rows(
            f"INSERT INTO archived (group_id, queue_id, upto) VALUES (1, 0, {START + HOUR}), (0, 0, 1)"
        )
        limits = retention.Limits(0, 0, 0, 0)
        rounds.stage.now = START + HOUR
        for shard in range(SHARDS):
            cleaned = await whole_round(rounds.stage, retention.clean_cancelled, shard=shard, limits=limits, limit=9)
            assert cleaned.rows == 0


class TestTopicGone:
    async def test_at_its_turn(self, rounds: Rounds) -> None:
        await rounds.put()
        await rounds.stage.store.remove_topic(rounds.topic, rounds.stage.now, force=True)
        assert await rounds.due(MINUTE) == []
        assert rounds.stage.count("schedule") == rounds.stage.count("delay") == 0
