"""Timers by key: at most one message of a key waits, whatever is set, cancelled and due at the same time."""

import random
from collections import Counter
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from support.at_once import at_once
from support.counting import counted
from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, START, Stage, uncommitted
from tarry.store.ids import IdMaker
from tarry.store.looking import timer_pages
from tarry.store.records import Conflict, Publication, Topic, TopicState
from tarry.store.store import Store
from tarry.store.stream import idempotency
from tarry.store.timers import keyed, timers
from tarry.store.timers.keyed import Answer, Wish


@attrs.define
class Timers:
    """Short words."""

    stage: Stage
    topic: Topic

    def wish(self, key: str = "order-7", delay: int = HOUR, body: bytes = b"{}", **rest: Any) -> Wish:
        return Wish(self.topic, key, self.stage.draft(self.topic, body, delay), **rest)

    async def do(self, *wishes: Wish) -> list[Answer]:
        return await self.stage.store.set_timers(wishes, self.stage.now)

    async def set(self, key: str = "order-7", delay: int = HOUR, body: bytes = b"{}", **rest: Any) -> Answer:
        (answer,) = await self.do(self.wish(key, delay, body, **rest))
        return answer

    async def cancel(self, key: str = "order-7", **rest: Any) -> Answer:
        (answer,) = await self.do(Wish(self.topic, key, **rest))
        return answer

    async def find(self, key: str = "order-7") -> keyed.Standing | None:
        return await self.stage.store.read(keyed.find_timer, self.topic, key)

    async def state(self) -> TopicState:
        return await self.stage.state(self.topic)


@pytest.fixture
async def timed(stage: Stage) -> Timers:
    return Timers(stage, await stage.topic())


class TestSet:
    async def test_the_first(self, timed: Timers) -> None:
        answer = await timed.set()
        at = START + HOUR
        assert answer == Answer("made", answer.id, START, at, due=at)
        assert await timed.stage.waiting() == {answer.id: at}
        assert await timed.find() == keyed.Standing("scheduled", answer.id, START, at)
        assert await timed.state() == TopicState(accepted=1, streamed=0, cancelled=0)
        assert timed.stage.column("SELECT `key` FROM delay") == [b"order-7"]

    async def test_another_takes_its_place_and_leaves_nothing(self, timed: Timers) -> None:
        first = await timed.set(body=b"1")
        second = await timed.set(delay=2 * HOUR, body=b"2")
        assert (second.result, second.replaced, second.due_before) == ("replaced", first.id, START + HOUR)
        assert second.id != first.id
        assert second.revision == first.revision + 1
        assert timed.stage.column("SELECT body FROM delay") == [b"2"]
        assert timed.stage.count("cancelled") == 0
        assert timed.stage.column("SELECT id FROM label") == [second.id]
        assert timed.stage.count("timer") == 1
        state = await timed.state()
        assert (state.accepted, state.replaced, state.pending) == (2, 1, 1)

    async def test_keys_are_of_their_topic_alone(self, timed: Timers) -> None:
        other = Timers(timed.stage, await timed.stage.topic("other"))
        await timed.set()
        await timed.set("order-8")
        assert (await other.set()).result == "made"
        assert timed.stage.count("delay") == 3

    async def test_keep(self, timed: Timers) -> None:
        first = await timed.set()
        timed.stage.now += MINUTE
        kept = await timed.set(mode="keep", body=b"2")
        assert (kept.result, kept.id, kept.revision, kept.deliver_at) == ("kept", first.id, START, first.deliver_at)
        assert timed.stage.column("SELECT body FROM delay") == [b"{}"]
        assert (await timed.state()).accepted == 1

    async def test_debounce_waits_so_long_at_most(self, timed: Timers) -> None:
        answer = await timed.set(delay=2 * MINUTE, mode="debounce", longest=4 * MINUTE)
        for minute in range(1, 5):
            timed.stage.now = START + minute * MINUTE
            answer = await timed.set(delay=2 * MINUTE, mode="debounce", longest=4 * MINUTE)
            assert answer.deliver_at == min(timed.stage.now + 2 * MINUTE, START + 4 * MINUTE)
        timed.stage.now = answer.deliver_at
        await timed.stage.promote(answer.id)
        again = await timed.set(delay=2 * MINUTE, mode="debounce", longest=4 * MINUTE)
        assert again.deliver_at == timed.stage.now + 2 * MINUTE, "it begins anew"

    async def test_after_it_has_fired(self, timed: Timers) -> None:
        first = await timed.set()
        timed.stage.now += HOUR
        await timed.stage.promote(first.id)
        assert await timed.find() == keyed.Standing("published", first.id, START, START + HOUR, 0, 0)
        second = await timed.set()
        assert (second.result, second.replaced, second.revision) == ("made", None, timed.stage.now)
        state = await timed.state()
        assert (state.accepted, state.streamed, state.replaced, state.pending) == (2, 1, 0, 1)

    async def test_due_at_once(self, timed: Timers) -> None:
        answer = await timed.set(delay=-HOUR)
        assert await timed.stage.waiting() == {answer.id: START}
        assert len(await timed.stage.promote(answer.id)) == 1

    async def test_one_batch(self, timed: Timers) -> None:
        one, two, other = await timed.do(timed.wish(body=b"1"), timed.wish(body=b"2"), timed.wish("order-8"))
        assert [one.result, two.result, other.result] == ["made", "replaced", "made"]
        assert two.replaced == one.id
        assert sorted(await timed.stage.waiting()) == sorted([two.id, other.id])
        assert sorted(timed.stage.column("SELECT body FROM delay")) == [b"2", b"{}"]

    async def test_moved_by_its_id(self, timed: Timers) -> None:
        first = await timed.set()
        await timed.stage.store.write(timers.reschedule, [(first.id, START + 2 * HOUR)], START)
        standing = await timed.find()
        assert standing is not None
        assert standing.deliver_at == START + 2 * HOUR
        second = await timed.set()
        assert second.due_before == START + 2 * HOUR
        assert timed.stage.count("moved") == 0
        assert await timed.stage.waiting() == {second.id: second.deliver_at}


class TestRevisions:
    async def test_only_at_this_one(self, timed: Timers) -> None:
        first = await timed.set()
        no = await timed.set(revision=first.revision - 1)
        assert (no.result, no.revision) == ("unmatched", first.revision)
        assert (await timed.cancel(revision=first.revision + 1)).result == "unmatched"
        second = await timed.set(revision=first.revision)
        assert second.result == "replaced"
        assert (await timed.set(revision=first.revision)).result == "unmatched"
        assert (await timed.cancel(revision=second.revision)).result == "cancelled"

    async def test_there_is_none(self, timed: Timers) -> None:
        assert (await timed.set(revision=START)).result == "unmatched"

    async def test_it_has_fired(self, timed: Timers) -> None:
        first = await timed.set()
        timed.stage.now += HOUR
        await timed.stage.promote(first.id)
        late = await timed.set(revision=first.revision)
        assert (late.result, late.queue, late.offset) == ("too_late", 0, 0)

    async def test_only_when_none_waits(self, timed: Timers) -> None:
        assert (await timed.set(absent=True)).result == "made"
        assert (await timed.set(absent=True)).result == "unmatched"

    async def test_none_comes_twice(self, timed: Timers) -> None:
        first = await timed.set()
        await timed.cancel()
        timed.stage.now += HOUR
        assert await timed.stage.store.write(keyed.forget, (0, b""), timed.stage.now + HOUR, 10) == (1, None)
        assert (await timed.set()).revision > first.revision


class TestCancel:
    async def test_in_time(self, timed: Timers) -> None:
        first = await timed.set()
        answer = await timed.cancel()
        assert (answer.result, answer.id, answer.fresh, answer.due_before) == (
            "cancelled",
            first.id,
            True,
            START + HOUR,
        )
        assert await timed.stage.waiting() == {}
        assert await timed.find() == keyed.Standing("cancelled", first.id, START, START + HOUR)
        assert (await timed.state()).cancelled == 1

    async def test_again(self, timed: Timers) -> None:
        await timed.set()
        await timed.cancel()
        answer = await timed.cancel()
        assert (answer.result, answer.fresh) == ("cancelled", False)
        assert (await timed.state()).cancelled == 1

    async def test_too_late(self, timed: Timers) -> None:
        first = await timed.set()
        timed.stage.now += HOUR
        await timed.stage.promote(first.id)
        answer = await timed.cancel()
        assert (answer.result, answer.queue, answer.offset) == ("too_late", 0, 0)

    async def test_unknown(self, timed: Timers) -> None:
        assert (await timed.cancel()).result == "not_found"

    async def test_set_again_after_it(self, timed: Timers) -> None:
        await timed.set()
        await timed.cancel()
        assert (await timed.set()).result == "made"
        assert (await timed.state()).pending == 1


class TestRequests:
    """A request that comes again is answered as before, and arms nothing."""

    async def test_after_the_fire(self, timed: Timers) -> None:
        named: dict[str, Any] = {"idempotency_key": "r", "fingerprint": bytes(32)}
        first = await timed.set(**named)
        timed.stage.now += HOUR
        await timed.stage.promote(first.id)
        again = await timed.set(**named)
        assert again == Answer("made", first.id, first.revision, first.deliver_at, replayed=True)
        assert await timed.stage.waiting() == {}

    async def test_with_another_request(self, timed: Timers) -> None:
        await timed.set(idempotency_key="r", fingerprint=bytes(32))
        assert (await timed.set(idempotency_key="r", fingerprint=b"1" * 32)).result == "conflict"

    async def test_that_of_a_message(self, timed: Timers) -> None:
        await timed.set(idempotency_key="r", fingerprint=bytes(32))
        other = Publication((timed.stage.draft(timed.topic),), "r", b"1" * 32)
        assert await timed.stage.store.publish([other], START) == [Conflict("r")]

    async def test_twins_in_one_batch(self, timed: Timers) -> None:
        wish = timed.wish(idempotency_key="r", fingerprint=bytes(32))
        one, two = await timed.do(wish, wish)
        assert (one.id, two.id, two.replayed) == (one.id, one.id, True)
        assert len(await timed.stage.waiting()) == 1

    async def test_past_its_window(self, timed: Timers) -> None:
        named: dict[str, Any] = {"idempotency_key": "r", "fingerprint": bytes(32)}
        await timed.set(**named)
        timed.stage.now += timed.stage.store.window + 1
        assert not (await timed.set(**named)).replayed
        await timed.stage.store.write(idempotency.forget, timed.stage.now, 10)


class TestForget:
    async def test_what_waits_stays(self, timed: Timers) -> None:
        for number in range(10):
            await timed.set(f"k{number}", delay=(number + 1) * MINUTE)
        fired = [id_ for id_, due in (await timed.stage.waiting()).items() if due <= START + 4 * MINUTE]
        timed.stage.now += 4 * MINUTE
        await timed.stage.promote(*fired)
        pages: list[int] = []
        place: tuple[int, bytes] | None = (0, b"")
        while place is not None:
            some, place = await timed.stage.store.write(keyed.forget, (*place,), START + 3 * MINUTE, 3)
            pages.append(some)
        assert sum(pages) == 2, "those of the first two minutes"
        assert timed.stage.count("timer") == 8

    async def test_what_was_moved_stays(self, timed: Timers) -> None:
        first = await timed.set()
        await timed.stage.store.write(timers.reschedule, [(first.id, START + 9 * HOUR)], START)
        assert await timed.stage.store.write(keyed.forget, (0, b""), START + 5 * HOUR, 10) == (0, None)


@on_servers
async def test_who_is_locked_is_told(timed: Timers) -> None:
    first = await timed.set()
    await timed.set("order-8")
    for lock in ("SELECT * FROM timer WHERE `key` = 'order-7' FOR UPDATE", "SELECT * FROM delay FOR UPDATE"):
        wishes = [timed.wish(), timed.wish("order-9"), Wish(timed.topic, "order-7")]
        with uncommitted(timed.stage.dsn, lock), trio.fail_after(5):
            answers = await timed.do(*wishes)
        assert [answer.result for answer in answers] == ["locked", answers[1].result, "locked"]
        assert answers[1].result in ("made", "locked")
    standing = await timed.find()
    assert standing is not None
    assert standing.id == first.id


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds", [pytest.param(150, id="some"), pytest.param(10_000, id="many", marks=pytest.mark.long)]
)
@pytest.mark.cases(1)
async def test_cancel_replace_and_fire_race(timed: Timers, rounds: int) -> None:
    """One timer that is due, and three servers at it at the same moment: every verdict is what became of it."""
    stage = timed.stage
    servers = [Store(stage.store.backend, ids=IdMaker(random.Random(n)), tally_shard=8 * n) for n in range(3)]
    seen: Counter[str] = Counter()
    for _ in range(rounds):
        before = await timed.set(delay=-1)
        race = Race(timed, servers, before.id)
        await race.run()
        seen.update(await race.ends())
        stage.now += 1
        await timed.cancel()
        stage.tables.rows("DELETE FROM cancelled")
        stage.tables.rows("DELETE FROM message")
    assert {"fired", "cancelled", "replaced", "too late"} <= set(seen), seen
    assert stage.kind == "sqlite" or rounds < 1000 or seen["locked"], seen


@attrs.define
class Race:
    """A cancel, a set and a promotion of the message that waits."""

    timed: Timers
    servers: list[Store]
    id: int
    cancelled: Answer | None = None
    armed: Answer | None = None
    fired: bool = False

    async def run(self) -> None:
        """All three at once."""
        await at_once(self._cancel, self._set, self._fire)

    async def ends(self) -> list[str]:
        """What became of the message, and was said of it. Fails where that is not the same."""
        stage, cancelled, armed = self.timed.stage, self.cancelled, self.armed
        assert cancelled is not None
        assert armed is not None
        in_stream = self.id in stage.column("SELECT id FROM message")
        is_cancelled = self.id in stage.column("SELECT id FROM cancelled")
        is_waiting = self.id in await stage.waiting()
        is_replaced = armed.replaced == self.id
        assert [in_stream, is_cancelled, is_waiting, is_replaced].count(True) == 1, (cancelled, armed, self.fired)
        assert in_stream == self.fired
        assert is_cancelled == (cancelled.result == "cancelled" and cancelled.id == self.id)
        if cancelled.result == "too_late":
            assert in_stream
        waiting = await stage.waiting()
        if armed.result in ("made", "replaced"):  # what it has set waits, or was cancelled behind it
            gone = cancelled.result == "cancelled" and cancelled.id == armed.id
            assert (armed.id in waiting) != gone
        said: list[str] = [name for name, one in (("locked", cancelled), ("locked", armed)) if one.result == name]
        said += ["too late"] if cancelled.result == "too_late" else []
        words = ("fired", "cancelled", "waits", "replaced")
        return said + [
            word for word, so in zip(words, (in_stream, is_cancelled, is_waiting, is_replaced), strict=True) if so
        ]

    async def _cancel(self) -> None:
        (self.cancelled,) = await self.servers[0].set_timers([Wish(self.timed.topic, "order-7")], self.timed.stage.now)

    async def _set(self) -> None:
        (self.armed,) = await self.servers[1].set_timers([self.timed.wish()], self.timed.stage.now)

    async def _fire(self) -> None:
        promoted = await self.servers[2].promote([self.id], self.timed.stage.now)
        self.fired = bool(promoted)


@pytest.mark.parametrize("seed", range(5))
async def test_set_cancel_and_fire_race(timed: Timers, seed: int) -> None:
    """Three servers at one key, each verdict checked against what came."""
    dice = random.Random(seed)
    stage = timed.stage
    servers = [
        Store(stage.store.backend, ids=IdMaker(random.Random(seed * 10 + n)), tally_shard=8 * n) for n in range(3)
    ]
    results: Counter[str] = Counter()
    armed: set[int] = set()
    replaced: set[int] = set()
    cancelled: set[int] = set()
    fired: set[int] = set()

    async def one(store: Store) -> None:
        for _ in range(12):
            await trio.lowlevel.checkpoint()
            what = dice.choice(["set", "set", "cancel", "fire", "fire"])
            if what == "fire":
                entries = list(await stage.store.read(timers.near, START, START + HOUR, 100))
                fired.update(one.entry for one in await store.promote([id_ for _, id_ in entries], stage.now))
                continue
            wish = timed.wish(delay=dice.choice([-1, 0, SECOND])) if what == "set" else Wish(timed.topic, "order-7")
            (answer,) = await store.set_timers([wish], stage.now)
            results[f"{what} {answer.result}"] += 1
            if answer.result in ("made", "replaced"):
                armed.add(answer.id)
            if answer.replaced is not None:
                replaced.add(answer.replaced)
            if answer.result == "cancelled" and answer.fresh:
                cancelled.add(answer.id)

    await at_once(*(partial(one, store) for store in servers))
    waiting = set(await stage.waiting())
    assert len(waiting) <= 1
    ends = [replaced, cancelled, fired, waiting]
    assert sum(map(len, ends)) == len(armed), results
    assert set().union(*ends) == armed
    assert fired == set(stage.column("SELECT id FROM message"))
    state = await timed.state()
    assert (state.accepted, state.replaced, state.cancelled, state.streamed) == tuple(
        map(len, (armed, replaced, cancelled, fired))
    )


class TestPages:
    """The timers of a topic by key, each as `find_timer` tells it."""

    async def keys(self, timed: Timers, limit: int) -> list[list[str]]:
        pages: list[list[str]] = []
        after: str | None = ""
        while after is not None:
            page = await timed.stage.store.read(timer_pages.find, timed.topic, after, limit)
            assert [one for one in page.timers if one[1] != await timed.find(one[0])] == []
            pages.append([key for key, _ in page.timers])
            after = page.after
        return pages

    async def test_by_key(self, timed: Timers) -> None:
        other = Timers(timed.stage, await timed.stage.topic("other"))
        for key in ("c", "a", "ü", "b", "B"):
            await timed.set(key)
            await other.set(f"{key}2")
        assert await self.keys(timed, 2) == [["B", "a"], ["b", "c"], ["ü"]]
        assert await self.keys(timed, 100) == [["B", "a", "b", "c", "ü"]]
        assert await self.keys(Timers(timed.stage, await timed.stage.topic("empty")), 2) == [[]]

    async def test_whatever_became_of_their_messages(self, timed: Timers) -> None:
        fired = await timed.set("fired", SECOND)
        await timed.set("waits")
        moved = await timed.set("moved")
        await timed.stage.store.write(timers.reschedule, [(moved.id, START + 2 * HOUR)], START)
        await timed.set("cancelled")
        await timed.cancel("cancelled")
        gone = await timed.set("gone", SECOND)
        timed.stage.now += 2 * SECOND
        await timed.stage.promote(fired.id, gone.id)
        timed.stage.tables.rows(f"DELETE FROM message WHERE id = {gone.id}")
        page = await timed.stage.store.read(timer_pages.find, timed.topic, "", 100)
        states = {key: one.state for key, one in page.timers}
        assert states == {"fired": "published", "waits": "scheduled", "moved": "scheduled", "cancelled": "cancelled"}
        assert await self.keys(timed, 1) == [["cancelled"], ["fired"], [], ["moved"], ["waits"], []]

    async def test_a_page_is_a_few_statements(self, timed: Timers) -> None:
        await timed.do(*(timed.wish(f"k{n:03}") for n in range(200)))
        other = Timers(timed.stage, await timed.stage.topic("other"))
        await other.do(*(other.wish(f"k{n:03}") for n in range(200)))
        async with counted(timed.stage.store) as count:
            page = await timed.stage.store.read(timer_pages.find, timed.topic, "", 100)
        assert len(page.timers) == 100
        assert len(count.statements) == 4
        assert count.rows == 2 * 100
