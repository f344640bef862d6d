"""Cancel, reschedule, promotion and looks of the same messages at once are linearizable (I8, I9).

Each call is noted with when it began, when it was answered and what it said. Afterwards an order of the calls is sought
that keeps to those times and in which every answer is true of one message that is waiting, cancelled or streamed.
"""

import random
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from support.at_once import at_once
from support.stores import SECOND, Stage
from tarry.store.ids import due_of
from tarry.store.looking import tracing
from tarry.store.records import Group, Topic
from tarry.store.timers import timers

WORKERS = 5
ROUNDS, AT_ONCE = 12, 5
CALLS = 7
"""About so many for each message."""

Job = tuple[Callable[[list[int]], Coroutine[Any, Any, None]], list[int]]
"""A call, and what it is about."""


@attrs.frozen
class State:
    """Of one message, with the due time while it waits."""

    name: str = "waiting"
    due: int = 0


@attrs.frozen
class Call:
    """One call about one message; times count calls."""

    began: int
    answered: int
    verb: str
    answer: str
    now: int = 0
    due_before: int | None = None
    deliver_at: int = 0

    def after(self, state: State) -> State | None:
        """The state after it; None when what it said is not true of `state`."""
        waits = state.name == "waiting"
        if self.answer in ("too_late", "cancelled before") and self.verb in ("cancel", "reschedule"):
            return state if state.name == ("streamed" if self.answer == "too_late" else "cancelled") else None
        if self.verb == "look":
            return state if state.name == self.answer else None
        if self.verb == "hand out":
            return state if state.name == "streamed" else None
        if not waits or self.due_before != state.due:
            return None
        if self.verb == "cancel":
            return State("cancelled")
        if self.verb == "reschedule":
            return State("waiting", max(self.deliver_at, self.now))
        return State("streamed") if state.due <= self.now else None


def has_order(calls: list[Call], state: State) -> bool:
    """Whether there is an order of the calls in which all of them are true."""
    dead_ends: set[tuple[int, State]] = set()

    def go_on(done: int, state: State) -> bool:
        if done == (1 << len(calls)) - 1:
            return True
        if (done, state) in dead_ends:
            return False
        left = [at for at in range(len(calls)) if not done >> at & 1]
        first_answer = min(calls[at].answered for at in left)
        for at in left:
            if calls[at].began < first_answer:
                following = calls[at].after(state)
                if following is not None and go_on(done | 1 << at, following):
                    return True
        dead_ends.add((done, state))
        return False

    return go_on(0, state)


@attrs.define
class Book:
    """Notes calls by message."""

    stage: Stage
    dice: random.Random
    calls: dict[int, list[Call]] = attrs.field(factory=dict[int, list[Call]])
    time: int = 0

    def tick(self) -> int:
        self.time += 1
        return self.time

    def note(self, id_: int, began: int, verb: str, answer: str, **rest: int | None) -> None:
        self.calls.setdefault(id_, []).append(Call(began, self.tick(), verb, answer, **rest))  # type: ignore[arg-type]

    async def cancel(self, ids: list[int]) -> None:
        began = self.tick()
        for id_, verdict in zip(ids, await self.stage.store.cancel(ids, self.stage.now), strict=True):
            if verdict.result != "locked":
                answer = "cancelled before" if verdict.result == "cancelled" and not verdict.fresh else verdict.result
                self.note(id_, began, "cancel", answer, due_before=verdict.due_before)

    async def reschedule(self, ids: list[int]) -> None:
        began, now = self.tick(), self.stage.now
        moves = [(id_, now + self.dice.choice((-SECOND, 0, 1, 2, SECOND))) for id_ in ids]
        verdicts = await self.stage.store.write(timers.reschedule, moves, now)
        for (id_, deliver_at), verdict in zip(moves, verdicts, strict=True):
            if verdict.result == "rescheduled":
                assert verdict.due == max(deliver_at, now)
            if verdict.result != "locked":
                answer = "cancelled before" if verdict.result == "cancelled" else verdict.result
                how = {"now": now, "due_before": verdict.due_before, "deliver_at": deliver_at}
                self.note(id_, began, "reschedule", answer, **how)

    async def promote(self, ids: list[int]) -> None:
        """What is left alone may have been locked, so nothing follows from that."""
        began, now = self.tick(), self.stage.now
        promoted = await self.stage.store.promote(ids, now)
        assert {one.entry for one in promoted} <= set(ids)
        for one in promoted:
            self.note(one.entry, began, "promote", "promoted", now=now, due_before=one.due)

    async def look(self, ids: list[int]) -> None:
        for id_ in ids:
            began = self.tick()
            found = await self.stage.store.read(tracing.find_message, id_)
            assert found is not None, "it was nowhere"
            names = {"scheduled": "waiting", "published": "streamed", "cancelled": "cancelled"}
            self.note(id_, began, "look", names[found.state])


@pytest.mark.parametrize("seed", [1, 2])
async def test_answers_about_a_message_have_an_order(stage: Stage, seed: int, topic: Topic, group: Group) -> None:
    dice = random.Random(seed)
    book = Book(stage, dice)
    handed: list[int] = []

    async def work(todo: list[Job]) -> None:
        while todo:
            call, ids = todo.pop()
            stage.now += dice.randrange(2)
            await call(ids)

    async def consume(todo: Sequence[Job]) -> None:
        over = False
        while not over:
            over = not todo
            began = book.tick()
            claim = await stage.claim_some(group, 3, lease=10**9)
            for message in claim.messages if claim else ():
                book.note(message.id, began, "hand out", "")
                handed.append(message.id)
            await trio.lowlevel.checkpoint()

    dues: dict[int, int] = {}
    for _ in range(ROUNDS):
        receipts = await stage.schedule(topic, *(dice.randrange(1, 8) for _ in range(AT_ONCE)))
        dues |= {receipt.id: due_of(receipt.id) for receipt in receipts}
        ids = [receipt.id for receipt in receipts]
        verbs = (book.cancel, book.reschedule, book.promote, book.promote, book.look)
        todo: list[Job] = [
            (dice.choice(verbs), dice.sample(ids, dice.randrange(1, AT_ONCE + 1))) for _ in range(2 * CALLS)
        ]
        await at_once(partial(consume, todo), *[partial(work, todo)] * WORKERS)
        stage.now += 2 * SECOND
        for call in (book.promote, book.look, book.cancel):
            await call(ids)
    while (claim := await stage.claim_some(group, 100)) is not None:
        handed += [message.id for message in claim.messages]
    last = {id_: [call.answer for call in calls if call.verb == "cancel"][-1] for id_, calls in book.calls.items()}
    assert {id_ for id_, answer in last.items() if answer == "too_late"} == set(handed), "handed out, or never"
    assert len(handed) == len(set(handed)), "handed out twice"
    for id_, calls in book.calls.items():
        calls.sort(key=lambda call: call.began)
        assert has_order(calls, State("waiting", dues[id_])), calls
    assert min(len(handed), len(last) - len(handed)) > ROUNDS // 2, "neither side had its share"


def test_the_search_finds_what_is_no_order() -> None:
    """The judge is judged."""
    begin = State("waiting", 5)
    cancel = Call(1, 4, "cancel", "cancelled", due_before=5)
    promote = Call(2, 3, "promote", "promoted", now=5, due_before=5)
    assert has_order([cancel], begin)
    assert has_order([promote], begin)
    assert not has_order([cancel, promote], begin), "one of them lies"
    assert has_order([Call(1, 4, "cancel", "too_late"), promote], begin)
    assert not has_order([Call(4, 5, "look", "waiting"), promote], begin), "a look into the past"
    assert has_order([Call(1, 5, "look", "waiting"), promote], begin)
    assert not has_order([attrs.evolve(promote, now=4)], begin), "early"
    moved = Call(1, 2, "reschedule", "rescheduled", now=1, due_before=5, deliver_at=9)
    assert not has_order([moved, attrs.evolve(promote, began=3, answered=4)], begin), "at its old time"
    assert not has_order([cancel, attrs.evolve(cancel, began=5, answered=6)], begin), "cancelled afresh twice"
