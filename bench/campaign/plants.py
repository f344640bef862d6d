"""Bugs that are planted in a real server, so that what finds them is the whole way from there to the checker.

Each is one promise broken now and then. The product knows nothing of them: its parts are changed where they are used.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from ...service.clock import Clock
from ...service.http import claims
from ...service.stream.intake import Intake
from ...service.stream.readers import Readers
from ...store.ports import Bound, Offsets, Value
from ...store.records import Delivered, Queue, Settled, Verdict
from ...wheel.ladder import Ladder
from ..killing import WatchedTransaction

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

    async def pull(self: Readers, queue: Queue, offset: int, size: int, wait: int) -> list[Delivered]:
        found = await right(self, queue, offset, size, wait)
        return [*found[:1], *found[2:]] if len(found) == _RARE else found

    Readers.pull = pull  # type: ignore[method-assign]


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
}
"""By name. Promoted twice and one lap late cannot be planted so: the index of ids refuses the one, the sweep behind the
hand mends the other."""
