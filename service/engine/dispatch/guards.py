"""Guards: a room for each, where messages wait for its answers; and which guards a message may name.

A message whose guard is not declared here has a room, too: it is held and reported, for this server cannot ask that
guard. Another server may be able to, and promotes it.
"""

from collections.abc import Iterable, Mapping, Sequence

import structlog
import trio
from attrs import define, field, frozen

from ....store.ids import SHARDS_OF_DELAY
from ....store.records import Found
from ....store.store import Store
from ....store.timers import guarded
from ...alarm import Alarm
from ...clock import Clock
from ...durations import format_time
from ...guards.asker import Asker
from ...guards.declared import Guard
from ...guards.question import Answers, NoAnswer
from ...metrics import Metrics
from ..cluster.nodes import Nodes
from .guard_telling import GuardTelling
from .guarded_promotion import GuardedPromotion
from .guardroom import GuardRoom

_LONG = 5_000
"""Milliseconds past its time after which a message is reported as not asked for."""
_PAGE, _REST = 1000, 0.02
"""Messages in one look at those that wait, and seconds between two looks."""

log = structlog.get_logger()


@frozen
class GuardState:
    """A guard as this server has it; `declared` is None where it is not in its settings."""

    name: str
    declared: Guard | None
    waiting: int
    """Messages that are due and have no answer yet."""
    why: str | None
    """Why they are held, if the guard does not answer."""


class Undeclared:
    async def ask(self, keys: Sequence[str]) -> Answers:
        del keys
        raise NoAnswer("it is not declared in this server's settings", of_all=True)


@define(eq=False)
class Guards:
    """All guards of a server, and their rooms."""

    _declared: Mapping[str, Guard]
    _store: Store
    _clock: Clock
    _metrics: Metrics
    _alarm: Alarm
    _nodes: Nodes
    _promotion: GuardedPromotion
    _telling: GuardTelling = field(init=False)
    _rooms: dict[str, GuardRoom] = field(factory=dict[str, GuardRoom], init=False)
    _noted: set[str] = field(factory=set[str], init=False)
    """Guards of which the store knows that messages name them."""
    _nursery: trio.Nursery | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._telling = GuardTelling(self._metrics, self._alarm, self._clock)
        for name in self._declared:
            self._open(name)

    def __contains__(self, entry: object) -> bool:
        return any(entry in room for room in self._rooms.values())

    def wrong(self, name: str) -> str | None:
        """What is wrong with a message that names this guard, if anything is."""
        if not self._store.backend.shared:
            return (
                "a guard looks into a table of MySQL or MariaDB: the embedded store has none, set dsn to one of those"
            )
        if name not in self._declared:
            there = ", ".join(self._declared) or "none"
            return f"there is no guard {name!r} in this server's settings, which declare {there}"
        return None

    async def admit(self, names: Iterable[str]) -> None:
        """Notes these guards in the store; call it before messages that name them are written."""
        for name in set(names) - self._noted:
            await self._store.write(guarded.note, name)
            self._noted.add(name)

    def put(self, due: Mapping[int, str]) -> None:
        """Takes messages that are due, with their guards."""
        for id_, name in due.items():
            (self._rooms.get(name) or self._open(name)).put(id_)

    def states(self) -> list[GuardState]:
        """All guards that are declared, and others for which messages wait."""
        return [
            GuardState(name, self._declared.get(name), len(room), room.holds)
            for name, room in sorted(self._rooms.items())
            if name in self._declared or room
        ]

    def why_held(self, one: Found) -> str | None:
        """Why a message that is due still waits for its guard; None where it does not, or may be about to go."""
        late = self._clock.now() - one.deliver_at
        if one.guard is None or one.state != "scheduled" or late < 0:
            return None
        room = self._rooms.get(one.guard)
        if room is not None and one.id in room:
            return room.why_held(one.id)
        # Another server or process has it, or it waits for its topic's release rate.
        return "this server has not asked its guard" if late > _LONG else None

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for room in self._rooms.values():
                nursery.start_soon(room.run)
            await trio.sleep_forever()

    async def look_for_undeclared(self) -> None:
        """Reports guards that are not declared here and that messages wait for."""
        names = set(await self._store.read(guarded.noted)) - self._declared.keys()
        waiting = dict.fromkeys(names, 0)
        for shard in range(SHARDS_OF_DELAY) if names else ():
            after: int | None = 0
            while after is not None:
                some, after = await self._store.read(guarded.waiting_in, shard, after, _PAGE)
                for name in some.keys() & names:
                    waiting[name] += some[name]
                await trio.sleep(_REST)
        for name, many in sorted(waiting.items()):
            if many:
                log.warning("guard_undeclared", guard=name, waiting=many)
                self._alarm.ring("guard_undeclared", at=format_time(self._clock.now()), guard=name, waiting=many)
            elif self._nodes.place[1] == 1:
                await self._store.write(guarded.forget, name)

    def _open(self, name: str) -> GuardRoom:
        declared = self._declared.get(name)
        guard = Undeclared() if declared is None else Asker(declared)
        room = self._rooms[name] = GuardRoom(name, guard, self._promotion, self._telling, self._clock)
        self._metrics.watch_guard(name, room.__len__)
        if self._nursery is not None:
            self._nursery.start_soon(room.run)
        return room
