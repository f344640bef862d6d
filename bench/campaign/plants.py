"""Bugs that are planted in a real server, to test that the checker finds them from the whole history.

Each bug breaks one promise now and then. The product has no code for them: its parts are patched where they are used.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

from attrs import evolve, frozen

from ...service.clock import Clock
from ...service.engine.consume.readers import Readers
from ...service.engine.publish.intake import Intake
from ...service.http import claims
from ...store.errors import Unavailable
from ...store.groups import claims as hands_out
from ...store.groups import failing
from ...store.ports import Bound, Offsets, Transaction, Value, Work
from ...store.records import Queue, Settled, Verdict
from ...store.rows import ScheduleRow
from ...store.schedules.course import Course
from ...store.schedules.firing import Firing
from ...store.stream import stretches
from ...store.stream.stretches import Pulled
from ...store.timers import keyed, timers
from ...wheel.ladder import Ladder
from ..killing import WatchedBackend, WatchedTransaction

T = TypeVar("T")

_Rows = Mapping[int, Sequence[Sequence[Value]]]
_AHEAD = 1000
"""Milliseconds."""
_RARE = 3
"""A page with this many messages lacks one of them."""


@frozen
class _Believed:
    """The offsets of messages that were written, and 0 for those that were not."""

    offsets: Offsets
    queues: Collection[int]

    def begin(self, queue_id: int) -> int:
        return self.offsets.begin(queue_id) if queue_id in self.queues else 0

    def written(self, text: Sequence[bytes | tuple[int, int]]) -> Any:
        return self.offsets.written([b"0" if not isinstance(p, bytes) and p[0] not in self.queues else p for p in text])


class _Appending(WatchedTransaction):
    """Changes the messages of an immediate publish, in every `every`-th append."""

    every = 10
    times = 0

    async def append(self, query: str, rows: _Rows, *, straight: bool) -> Offsets:
        kind = type(self)
        kind.times += 1
        if kind.times % self.every == 0:
            changed = {queue: self.changed(of_queue) for queue, of_queue in rows.items()}
            rows = {queue: of_queue for queue, of_queue in changed.items() if of_queue}
        return _Believed(await super().append(query, rows, straight=straight), rows)

    def changed(self, rows: Sequence[Sequence[Value]]) -> Sequence[Sequence[Value]]:
        raise NotImplementedError


class _Dropping(_Appending):
    def changed(self, rows: Sequence[Sequence[Value]]) -> Sequence[Sequence[Value]]:
        return rows[:-1]


class _Truncating(_Appending):
    def changed(self, rows: Sequence[Sequence[Value]]) -> Sequence[Sequence[Value]]:
        return [tuple(_shorter(value) for value in row) for row in rows]


def _shorter(value: Value) -> Value:
    return value.replace(b"xxxxxxxxx", b"xxxxxxxx", 1) if isinstance(value, bytes) else value


class _Swapping(_Appending):
    every = 1

    def changed(self, rows: Sequence[Sequence[Value]]) -> Sequence[Sequence[Value]]:
        return list(reversed(rows))


class _BuryingInSilence(WatchedTransaction):
    """Counts dead letters, but does not store them."""

    async def execute(self, query: str, *values: Bound) -> int:
        return 1 if query == "dead.add" else await super().execute(query, *values)


class _Miscounting(WatchedTransaction):
    async def execute(self, query: str, *values: Bound) -> int:
        if query == "tally.count":
            scheduled, *rest = values
            values = (scheduled + 1 if isinstance(scheduled, int) and scheduled else scheduled, *rest)
        return await super().execute(query, *values)


@frozen
class Plant:
    """A planted bug; `kinds` are the violations that can show it, one of which is enough."""

    kinds: tuple[str, ...]
    watched: type[WatchedTransaction] = WatchedTransaction
    patch: Callable[[], None] = lambda: None


def _hurry() -> None:
    """Sets the node's clock a second ahead."""
    right, waits = Clock.now, Clock.seconds_until
    Clock.now = lambda self: right(self) + _AHEAD  # type: ignore[method-assign]
    Clock.seconds_until = lambda self, ms: waits(self, ms - _AHEAD)  # type: ignore[method-assign]


def _forgive() -> None:
    """Accepts an ack after the end of its lease."""

    def taken(settled: Settled) -> Settled:
        return evolve(settled, lost=False, acked=1) if settled.lost else settled

    claims.unless_lost = taken


def _promise() -> None:
    """Answers a cancel that came too late with success."""
    right = Intake.cancel

    async def cancel(self: Intake, id_: int) -> Verdict:
        verdict = await right(self, id_)
        return evolve(verdict, result="cancelled") if verdict.result == "too_late" else verdict

    Intake.cancel = cancel  # type: ignore[method-assign]


def _lengthen() -> None:
    """Gives the ladder one more rung."""
    right = Ladder.rung

    def rung(self: Ladder, attempt: int) -> int | None:
        return 100 if attempt == len(self.rungs) + 1 else right(self, attempt)

    Ladder.rung = rung  # type: ignore[method-assign]


def _hasten() -> None:
    """Makes the rungs half as long."""
    right = Ladder.rung

    def rung(self: Ladder, attempt: int) -> int | None:
        rest = right(self, attempt)
        return None if rest is None else rest // 2

    Ladder.rung = rung  # type: ignore[method-assign]


def _skip() -> None:
    """Leaves one message out of some pages of a reader by offset."""
    right = Readers.pull

    async def pull(self: Readers, queue: Queue, offset: int, size: int, wait: int) -> Pulled:
        pulled = await right(self, queue, offset, size, wait)
        found = pulled.messages
        return pulled._replace(messages=[*found[:1], *found[2:]]) if len(found) == _RARE else pulled

    Readers.pull = pull  # type: ignore[method-assign]


def _look_up() -> None:
    """Makes the node use its host's wall clock."""
    Clock.now = lambda self: time.time_ns() // 1_000_000  # type: ignore[method-assign]
    Clock.seconds_until = lambda self, ms: max(0, ms - self.now()) / 1000  # type: ignore[method-assign]


def _cling() -> None:
    """Makes the node ignore a step of the database's clock and keep the old time."""
    Clock._doubt = lambda *_: None  # type: ignore[method-assign]


def _judge_expiry(past: Callable[[int | None, int], bool]) -> Callable[[], None]:
    """Replaces the check whether a message has expired, wherever it is used."""

    def patch() -> None:
        for place in (hands_out, failing, stretches, timers):
            place.is_past = past  # type: ignore[attr-defined]

    return patch


def _leave() -> None:
    """Leaves a message waiting after a timer replaced it."""
    keyed.remove_waiting = _nothing  # type: ignore[assignment, attr-defined]


async def _nothing(*_: object) -> None:
    pass


def _forget_cancel() -> None:
    """Answers that a timer is cancelled, but lets it fire."""
    keyed.cancel_locked = _nothing  # type: ignore[assignment, attr-defined]


def _fire_again() -> None:
    """Fires the first few fire times of schedules twice."""
    right = Firing._turn  # pyright: ignore[reportPrivateUsage]  # bugs are planted where nobody else reaches
    done: set[int] = set()

    async def turn(self: Firing, tx: Transaction, schedule: ScheduleRow, course: Course, fire_at: int) -> Any:
        told = await right(self, tx, schedule, course, fire_at)
        if fire_at in done or len(done) >= _FEW:
            return told
        done.add(fire_at)
        return told._replace(next_at=fire_at)

    Firing._turn = turn  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]


def _pass_by() -> None:
    """Skips every other fire time of a schedule."""
    right = Firing._turn  # pyright: ignore[reportPrivateUsage]  # bugs are planted where nobody else reaches
    turns = count()

    async def turn(self: Firing, tx: Transaction, schedule: ScheduleRow, course: Course, fire_at: int) -> Any:
        told = await right(self, tx, schedule, course, fire_at)
        if told.next_at is None or next(turns) % 2:
            return told
        return told._replace(next_at=course.after(told.next_at))

    Firing._turn = turn  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]


_FEW = 3
_PUBLISHING = frozenset(("message.add", "message.add_bare", "delay.add", "delay.add_bare"))


def _believe() -> None:
    """Answers a publish with success though its commit failed on a full disk."""
    right = WatchedBackend.write

    async def write(self: WatchedBackend, work: Work[T], *, heavy: bool = False) -> T:
        published: list[T] = []

        async def kept(tx: Transaction) -> T:
            result = await work(tx)
            if isinstance(tx, WatchedTransaction) and not _PUBLISHING.isdisjoint(tx.queries):
                published[:] = [result]
            return result

        try:
            return await right(self, kept, heavy=heavy)
        except Unavailable:
            if not published:
                raise
            return published[0]

    WatchedBackend.write = write  # type: ignore[method-assign]


PLANTS: Mapping[str, Plant] = {
    "dropped": Plant(("lost",), _Dropping),
    "early": Plant(("early",), patch=_hurry),
    "letter": Plant(("dead letter", "lost"), _BuryingInSilence),
    "stale-ack": Plant(("stale ack", "duplicate"), patch=_forgive),
    "cancel": Plant(("cancel",), patch=_promise),
    "order": Plant(("order",), _Swapping),
    "skipped": Plant(("skipped",), patch=_skip),
    "retry": Plant(("retries",), patch=_lengthen),
    "rung": Plant(("rung",), patch=_hasten),
    "truncated": Plant(("body",), _Truncating),
    "counter": Plant(("counters",), _Miscounting),
    "past-its-end": Plant(("expired",), patch=_judge_expiry(lambda _expires_at, _at: False)),
    "ended-early": Plant(("lost",), patch=_judge_expiry(lambda expires_at, _at: expires_at is not None)),
    "replaced": Plant(("timer",), patch=_leave),
    "timer-cancel": Plant(("cancel",), patch=_forget_cancel),
    "fired-twice": Plant(("written twice",), patch=_fire_again),
    "passed-by": Plant(("fire",), patch=_pass_by),
    "host-clock": Plant(("early",), patch=_look_up),
    "old-clock": Plant(("stuck",), patch=_cling),
    "no-room": Plant(("lost",), patch=_believe),
}
"""The plants by name. The last three show only when a clock is set or a disk is full. A message promoted twice or one
lap late cannot be planted: the unique index of ids refuses the first, the sweep behind the hand repairs the second."""
