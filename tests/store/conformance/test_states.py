"""The table of states against random lives on a real store: all that is observed is in it, and all of it is observed.

A state is a place: it is read from the bare tables. Each call of the store may bring about some events; what a message
was before and is after must be a row of the table with one of these.
"""

import random
from collections import defaultdict

import pytest
from attrs import define, field

from support import state_drawing
from support.cleaning import clean
from support.stores import HOUR, SECOND, Stage
from tarry.store.cleaning.retention import Limits
from tarry.store.operating.redriving import Letters, purge
from tarry.store.operating.replaying import Range
from tarry.store.records import Claim, ClaimRequest, Group, Outcome, Settlement, Topic
from tarry.store.states import AFTER, ENDS, FINDABLE, LIFE, State
from tarry.store.stream.positions import Position
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

_GONE_AFTER = 200 * SECOND
_LIMITS = Limits(retention=_GONE_AFTER, hard=_GONE_AFTER, history=1 << 40, dead=1 << 40)
_MOST, _STEPS = 500, 100
"""Topics, and steps in the life of each."""
_FINAL = ("acked", "skipped", "passed", "purged", "expired")
_EVENTS = {
    "publish": ("scheduled", "published"),
    "reschedule": ("rescheduled",),
    "cancel": ("cancelled",),
    "promote": ("promoted", "returned"),
    "ask": ("promoted", "suppressed"),
    "claim": ("claimed", "skipped", "parked", "expired", "returned"),
    "ack": ("acked", "returned"),
    "fail": ("failed", "dead", "parked", "expired", "returned"),
    "suspend": ("suspended", "parked", "expired", "returned"),
    "end": ("lease_lost", "dead", "parked", "expired", "returned"),
    "clean": ("expired", "returned"),  # what rests on the ladder and has nothing to come back for
    "redrive": ("redriven",),
    "purge": ("purged",),
    "replay": ("replayed",),
    "seek": ("sought", "passed", "released", "expired"),
}
"""What may happen to messages in a call."""

_OFTEN = ("publish", *3 * ("claim",), *3 * ("promote", "fail", "seek"), *2 * ("purge", "redrive", "replay"))

Where = tuple[int, int]
"""A message, and a group; 0 for the message as such."""


@define
class Lives:
    """A topic, ordered or not, with one group."""

    stage: Stage
    dice: random.Random
    topic: Topic
    group: Group
    seen: set[tuple[State | None, str]] = field(factory=set[tuple[State | None, str]])
    states: dict[Where, State] = field(factory=dict[Where, State])
    dues: dict[int, int] = field(factory=dict[int, int])
    streamed: dict[int, int] = field(factory=dict[int, int])
    """Where in the stream each message lay, also when it is gone."""
    claims: list[Claim] = field(factory=list[Claim])

    @classmethod
    async def begin(cls, stage: Stage, dice: random.Random, *, ordered: bool) -> "Lives":
        topic = await stage.topic(f"topic-{dice.random()}", ladder=Ladder((SECOND,)), ordered=ordered)
        return cls(stage, dice, topic, await stage.group(topic))

    async def step(self, *, late: bool) -> None:
        """Something happens, and is in the table. What comes late in a topic's life are no new messages."""
        self.stage.now += self.dice.choice((1, SECOND, 5 * SECOND))
        act = self.dice.choice((*_EVENTS, *_OFTEN))
        act = "purge" if late and act == "publish" else act
        before = dict(self.states), dict(self.dues)
        await getattr(self, act)()
        self.states = self.observe()
        for where in sorted(self.states.keys() | before[0].keys()):
            old, new = before[0].get(where), self.states.get(where)
            assert new is not None, f"{act}: a message is nowhere, which was {old}"
            moved = where[0] in self.dues and self.dues.get(where[0]) != before[1].get(where[0])
            if old == new and not (new == "scheduled" and moved):
                continue
            if old is None and where[1]:
                assert new == "published", "where every message begins in a group"
                continue
            self._in_the_table(act, old, new)

    def _in_the_table(self, act: str, old: State | None, new: State) -> None:
        ways: list[tuple[State | None, str]] = [(old, event) for event in _EVENTS[act] if LIFE.get((old, event)) == new]
        if not ways:  # it may have been parked and have come back in the same moment
            ways = [(old, "parked"), ("parked", "returned")]
            fits = LIFE.get(ways[0]) == "parked" and LIFE[ways[1]] == new
            assert fits, f"{act}: {old} -> {new} is not in the table"
        self.seen.update(ways)

    # What may happen

    async def publish(self) -> None:
        drafts = [
            self.stage.draft(
                self.topic,
                delay=self.dice.choice((None, None, 20 * SECOND, HOUR)),
                tag=self.dice.choice((None, "red")),
                ordering_key=self.dice.choice("ab") if self.topic.ordered else None,
                guard=self.dice.choice((None, None, "unpaid")),
            )
            for _ in range(self.dice.randrange(1, 5))
        ]
        await self.stage.publish(*drafts)

    def _some(self, state: State) -> list[int]:
        there = [id_ for (id_, _), now in self.states.items() if now == state]
        return self.dice.sample(there, min(len(there), self.dice.randrange(1, 4)))

    async def reschedule(self) -> None:
        moves = [(id_, self.stage.now + self.dice.choice((SECOND, HOUR))) for id_ in self._some("scheduled")]
        await self.stage.store.write(timers.reschedule, moves, self.stage.now)

    async def cancel(self) -> None:
        await self.stage.store.cancel(self._some("scheduled"), self.stage.now)

    async def promote(self) -> None:
        self.stage.now += 2 * SECOND
        own = f"SELECT id FROM delay WHERE topic_id = {self.topic.id}"
        retries = f"SELECT id FROM retry WHERE group_id = {self.group.id}"
        await self.stage.promote(*self.stage.column(own), *(~id_ for id_ in self.stage.column(retries)))

    async def ask(self) -> None:
        """The guards of what has one."""
        own = self.stage.column(f"SELECT id FROM delay WHERE topic_id = {self.topic.id} AND guard IS NOT NULL")
        answers = {id_: self.dice.random() < 0.5 for id_ in own}
        await self.stage.store.promote_guarded(answers, self.stage.now, lambda: True)

    async def claim(self) -> None:
        tags = self.dice.choice((None, None, frozenset(["red"])))
        request = ClaimRequest("me", self.dice.randrange(1, 6), HOUR, tags)
        self.claims += (await self.stage.turn(self.group, requests=[request])).ranges

    async def _settle(self, verb: str, *, count: bool = True, all_of_it: bool = False) -> None:
        if not self.claims:
            return
        claim = self.dice.choice(self.claims)
        place = f"group_id = {self.group.id} AND queue_id = {claim.key.queue_id} AND number = {claim.key.number}"
        rows = self.stage.tables.rows(f"SELECT outcome FROM claim WHERE {place}")
        open_ = [at for at, outcome in enumerate(rows[0][0]) if outcome == Outcome.OPEN] if rows else []
        if not open_:
            self.claims.remove(claim)
            return
        some = open_ if all_of_it else self.dice.sample(open_, self.dice.randrange(1, len(open_) + 1))
        wish = Settlement(claim.key, "ack", tuple(some))
        if verb == "end":
            wish = Settlement(claim.key, "end", at_once=True)
        elif verb == "fail":
            wish = Settlement(claim.key, "fail", tuple(some), count=count)
        await self.stage.settle_one(self.group, wish)

    async def ack(self) -> None:
        await self._settle("ack")

    async def fail(self) -> None:
        await self._settle("fail")

    async def suspend(self) -> None:
        await self._settle("fail", count=False)

    async def end(self) -> None:
        await self._settle("end")

    async def clean(self) -> None:
        if self.dice.random() < 0.5:
            self.stage.now += _GONE_AFTER
            for id_ in self._some("claimed"):  # a turn that claims at the moment when the cleaner takes what is overdue
                taken = f"id = {id_} AND streamed_at <= {self.stage.now - _GONE_AFTER}"
                self.stage.tables.rows(f"DELETE FROM message WHERE {taken}")
        await clean(self.stage, self.topic, limits=_LIMITS, limit=50)

    async def redrive(self) -> None:
        letters = Letters(ids=tuple(self._some("dead")))
        await self.stage.store.redrive(self.group, letters, 100, self.stage.now)

    async def purge(self) -> None:
        await self.stage.store.write(purge, self.group, Letters(ids=tuple(self._some("dead"))), 100)

    def _there(self) -> list[tuple[int, State, int]]:
        """(offset, state in the group, id) of what is in the stream, in order."""
        offsets = self.stage.tables.rows(f"SELECT `offset`, id FROM message WHERE queue_id = {self.topic.queues[0].id}")
        return sorted((offset, self.states[id_, self.group.id], id_) for offset, id_ in offsets)

    async def replay(self) -> None:
        """Messages that are not on their way in the group."""
        there = [offset for offset, state, _ in self._there() if state == "purged"]
        if there := there or [offset for offset, state, _ in self._there() if state in _FINAL]:
            begin = self.dice.choice(there)
            request = b"%032d" % self.stage.now
            asked = Range(Position("offset", begin), Position("offset", begin + 1), self.topic.queues, request)
            await self.stage.store.replay(self.group, asked, 10, self.stage.now)

    async def seek(self) -> None:
        """To where no message is on its way already."""
        back = self.group.retry_queue_of[self.topic.queues[0].id].id
        away = {id_ for claim in self.claims if claim.key.queue_id == back for id_ in claim.places}
        there = self._there()
        busy = [
            offset
            for offset, state, id_ in there
            if state not in ("published", "claimed", *_FINAL) or (state == "claimed" and id_ in away)
        ]
        low = max(busy, default=-1) + 1
        if there:
            target = self.dice.choice((low, self.dice.randrange(low, max(low, there[-1][0] + 1) + 1)))
            await self.stage.store.seek(self.group, self.topic.queues, Position("offset", target), self.stage.now)

    # Where everything is

    def observe(self) -> dict[Where, State]:
        rows, group_id = self.stage.tables.rows, self.group.id
        (own,) = self.topic.queues
        back = self.group.retry_queue_of[own.id]
        found: dict[Where, State] = {}
        waiting = rows(f"SELECT id, due FROM delay WHERE topic_id = {self.topic.id}")
        self.dues = dict(waiting)
        for id_, _ in waiting:
            found[id_, 0] = "scheduled"
        for id_, reason in rows(f"SELECT id, reason FROM cancelled WHERE topic_id = {self.topic.id}"):
            assert (id_, 0) not in found
            found[id_, 0] = "suppressed" if reason else "cancelled"
        there = dict(rows(f"SELECT id, `offset` FROM message WHERE queue_id = {own.id}"))
        self.streamed |= there
        positions = dict(rows(f"SELECT queue_id, position FROM `cursor` WHERE group_id = {group_id}"))
        ways: defaultdict[int, list[State]] = defaultdict(list)
        came: dict[int, int] = {}  # back from the ladder
        for table, column, state in (("retry", "message_id", "retrying"), ("parked", "message_id", "parked")):
            for (id_,) in rows(f"SELECT {column} FROM {table} WHERE group_id = {group_id}"):
                ways[id_].append(state)  # type: ignore[arg-type]  # two of the states
        for (id_,) in rows(f"SELECT id FROM dead WHERE group_id = {group_id}"):
            ways[id_].append("dead")
        returns: dict[int, int] = {}
        for offset, id_, at_ in rows(
            f"SELECT `offset`, message_id, streamed_at FROM redelivery WHERE queue_id = {back.id}"
        ):
            returns[offset] = id_
            came[id_] = max(came.get(id_, 0), at_)
        at = {own.id: {offset: id_ for id_, offset in self.streamed.items()}, back.id: returns}
        ends: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        log = "queue_id, `first`, size, claimed_at, outcome, settled_at"
        for queue_id, first, size, claimed_at, outcome, settled_at in rows(
            f"SELECT {log} FROM claim WHERE group_id = {group_id}"
            f" UNION ALL SELECT {log} FROM delivery WHERE group_id = {group_id}"
        ):
            for place in range(size):
                if (id_ := at[queue_id].get(first + place)) is None:
                    continue
                if outcome[place] == Outcome.OPEN:
                    ways[id_].append("claimed")
                else:
                    when = int.from_bytes(settled_at[8 * place : 8 * place + 8], "big") or claimed_at
                    ends[id_].append((when, outcome[place]))
        for offset, id_ in returns.items():
            if offset >= positions[back.id]:
                ways[id_].append("returned")
        for id_, offset in self.streamed.items():
            if id_ in there and offset >= positions[own.id]:
                ways[id_].append("published")
        seeks = rows(
            f"SELECT sought_at, position_before, position_after FROM seek"
            f" WHERE group_id = {group_id} AND queue_id = {own.id} ORDER BY number"
        )
        for id_, offset in self.streamed.items():
            found[id_, 0] = "published"
            assert len(ways[id_]) <= 1, ways[id_]
            before = self.states.get((id_, group_id))
            last = max([*ends[id_], (came.get(id_, 0), -1)])
            ended = self._ended(before, offset, last, seeks, id_ in there)
            found[id_, group_id] = ways[id_][0] if ways[id_] else ended
        return found

    def _ended(
        self, before: State | None, offset: int, last: tuple[int, int], seeks: list[tuple[int, ...]], there: bool
    ) -> State:
        """What became of a message that is not on its way in the group."""
        if not there and before in _FINAL:
            return before
        passed = [seek for seek in seeks if seek[0] >= last[0] and (offset < seek[1]) != (offset < seek[2])]
        if passed and offset >= passed[-1][1]:
            return "passed"
        if last[1] == Outcome.RELEASED and not passed:
            return "passed"
        state = "published" if passed or last[1] == -1 else AFTER[Outcome(last[1])]
        if state == "dead":
            return "purged"
        if state in _FINAL:
            return state
        # It was passed over, and counters alone have it.
        return before if before in ("skipped", "expired") else "skipped" if there else "expired"


@pytest.mark.slow
@pytest.mark.cases(1)
async def test_lives_go_by_the_table(stage: Stage) -> None:
    dice = random.Random(4)
    missing = set(LIFE)
    for number in range(_MOST):
        lives = await Lives.begin(stage, dice, ordered=number % 3 > 0)
        for step in range(_STEPS):
            await lives.step(late=step > _STEPS // 2)
        missing -= lives.seen
        if not missing:
            break
    assert missing == set(), "never observed"


def test_the_words_are_the_same() -> None:
    assert {state for state, _ in LIFE if state is not None} | set(LIFE.values()) == set(state_drawing.PLACES)
    assert set(FINDABLE) <= set(state_drawing.PLACES)
    assert set(ENDS) == set(Outcome) - {Outcome.OPEN}


def test_the_drawing_is_of_the_table() -> None:
    assert state_drawing.drawn() == state_drawing.draw(), "see support/state_drawing.py"
