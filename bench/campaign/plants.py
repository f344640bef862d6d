"""Bugs that are planted in a real server, so that what finds them is the whole way from there to the checker.

Each is one promise broken now and then. The product knows nothing of them: its parts are changed where they are used.
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
"""Messages of a page of which one is kept back."""


@frozen
class _Believed:
    """The offsets of what was written, and 0 for what was not."""

    offsets: Offsets
    queues: Collection[int]

    def begin(self, queue_id: int) -> int:
        return self.offsets.begin(queue_id) if queue_id in self.queues else 0

    def written(self, text: Sequence[bytes | tuple[int, int]]) -> Any:
        return self.offsets.written([b"0" if not isinstance(p, bytes) and p[0] not in self.queues else p for p in text])


class _Appending(WatchedTransaction):
    """Changes what is published at once, every so many times."""

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
    """The cursor counts a dead letter that is nowhere."""

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
    """`kinds` of the violations that show it; one will do."""

    kinds: tuple[str, ...]
    watched: type[WatchedTransaction] = WatchedTransaction
    patch: Callable[[], None] = lambda: None


def _hurry() -> None:
    """The node's clock is a second ahead."""
    right, waits = Clock.now, Clock.seconds_until
    Clock.now = lambda self: right(self) + _AHEAD  # type: ignore[method-assign]
    Clock.seconds_until = lambda self, ms: waits(self, ms - _AHEAD)  # type: ignore[method-assign]


def _forgive() -> None:
    """An ack of a lease that is over is taken."""

    def taken(settled: Settled) -> Settled:
        return evolve(settled, lost=False, acked=1) if settled.lost else settled

    claims.unless_lost = taken


def _promise() -> None:
    """A cancel that came too late says that it won."""
    right = Intake.cancel

    async def cancel(self: Intake, id_: int) -> Verdict:
        verdict = await right(self, id_)
        return evolve(verdict, result="cancelled") if verdict.result == "too_late" else verdict

    Intake.cancel = cancel  # type: ignore[method-assign]


def _lengthen() -> None:
    """The ladder has a rung more."""
    right = Ladder.rung

    def rung(self: Ladder, attempt: int) -> int | None:
        return 100 if attempt == len(self.rungs) + 1 else right(self, attempt)

    Ladder.rung = rung  # type: ignore[method-assign]


def _hasten() -> None:
    """Rungs are half as long."""
    right = Ladder.rung

    def rung(self: Ladder, attempt: int) -> int | None:
        rest = right(self, attempt)
        return None if rest is None else rest // 2

    Ladder.rung = rung  # type: ignore[method-assign]


def _skip() -> None:
    """A reader by offset is given all but one."""
    right = Readers.pull

    async def pull(self: Readers, queue: Queue, offset: int, size: int, wait: int) -> Pulled:
        pulled = await right(self, queue, offset, size, wait)
        found = pulled.messages
        return pulled._replace(messages=[*found[:1], *found[2:]]) if len(found) == _RARE else pulled

    Readers.pull = pull  # type: ignore[method-assign]


def _look_up() -> None:
    """The node goes by its host's wall clock."""
    Clock.now = lambda self: time.time_ns() // 1_000_000  # type: ignore[method-assign]
    Clock.seconds_until = lambda self, ms: max(0, ms - self.now()) / 1000  # type: ignore[method-assign]


def _cling() -> None:
    """A clock of the database that was set is never followed: the node goes on by the time before."""
    Clock._doubt = lambda *_: None  # type: ignore[method-assign]


def _judge_expiry(past: Callable[[int | None, int], bool]) -> Callable[[], None]:
    """Whether a message is past its time is judged so, wherever it is asked."""

    def patch() -> None:
        for place in (hands_out, failing, stretches, timers):
            place.is_past = past  # type: ignore[attr-defined]

    return patch


def _leave() -> None:
    """What a timer has replaced waits on."""
    keyed.remove_waiting = _nothing  # type: ignore[assignment, attr-defined]


async def _nothing(*_: object) -> None:
    pass


def _forget_cancel() -> None:
    """A timer that is cancelled says so, and fires."""
    keyed.cancel_locked = _nothing  # type: ignore[assignment, attr-defined]


def _fire_again() -> None:
    """A schedule has its first fire times twice."""
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
    """Every other fire time of a schedule is passed by."""
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
    """A publish whose commit the disk had no room for is answered as if it were there."""
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
"""By name. The last three show only where a clock is set or a disk is full. Promoted twice and one lap late cannot be
planted so: the index of ids refuses the one, the sweep behind the hand mends the other."""
