"""Guards: the rooms where messages wait for their answers, one for each; who may name a guard, and what is said of one
that holds its messages.

A message whose guard is not declared here has a room, too: it is held and told, for this server has nobody to ask.
Another may, and hands it out.
"""

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence

import structlog
import trio
from attrs import define, field, frozen

from ...store.ids import SHARDS_OF_DELAY
from ...store.records import Found, Promoted
from ...store.store import Store
from ...store.timers import guarded
from ..alarm import Alarm
from ..clock import Clock
from ..durations import format_time
from ..errors import OlderServer
from ..guards.asker import Asker
from ..guards.declared import Guard
from ..guards.question import Answers, NoAnswer
from ..metrics import Metrics
from ..topics.directory import Directory
from .guardroom import GuardRoom

_REMIND = 60.0
"""Seconds between two lines, or alarms, of one guard that holds messages."""
_LONG = 5_000
"""Milliseconds past its time after which it is told that a message has not been asked for."""
_PAGE, _REST = 1000, 0.02
"""Messages in one look at what waits, and seconds between two."""

log = structlog.get_logger()


@frozen
class Either:
    """What is in one place or another."""

    one: Container[object]
    other: Container[object]
    third: Container[object]

    def __contains__(self, entry: object) -> bool:
        return entry in self.one or entry in self.other or entry in self.third


@frozen
class GuardState:
    """A guard as this server has it; `declared` is None where it is not in its settings."""

    name: str
    declared: Guard | None
    waiting: int
    """Messages that are due and have no answer yet."""
    why: str | None
    """Why they are held, if the guard does not answer."""


@define
class _Told:
    """When it was last told that a guard holds messages, and since when it does; trio's time."""

    at: float
    since: float


Some = Callable[[Sequence[int]], Awaitable[set[int]]]
Wholly = Callable[[Sequence[int], Some], Awaitable[Sequence[set[int]]]]


async def _at_once(ids: Sequence[int], promote: Some) -> Sequence[set[int]]:
    return [await promote(ids)]


@define(eq=False)
class Guards:
    """All guards of a server."""

    _declared: Mapping[str, Guard]
    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _alarm: Alarm
    _streamed: Callable[[Sequence[Promoted]], None]
    _level: Callable[[], int] = field(kw_only=True, alias="level")
    """The newest migration that all servers know."""
    _alone: Callable[[], bool] = field(kw_only=True, alias="alone")
    """Whether no other server is at work."""
    _wholly: Wholly = field(default=_at_once, kw_only=True, alias="wholly")
    """Promotes part by part what fails together."""
    _ask: Callable[[Guard], Asker] = field(default=Asker, kw_only=True, alias="ask")
    _rooms: dict[str, GuardRoom] = field(factory=dict[str, GuardRoom], init=False)
    _noted: set[str] = field(factory=set[str], init=False)
    """Of which the store knows that messages name them."""
    _told: dict[str, _Told] = field(factory=dict[str, _Told], init=False)
    _nursery: trio.Nursery | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._store.guards = self.put
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
        """Before messages with these guards are written. Raises `OlderServer`."""
        new = set(names)
        if not new:
            return
        if self._level() < guarded.LEVEL:
            raise OlderServer("would not ask the guards of messages")
        for name in new - self._noted:
            await self._store.write(guarded.note, name)
            self._noted.add(name)

    def put(self, due: Mapping[int, str]) -> None:
        """Messages that are due, and their guards."""
        for id_, name in due.items():
            (self._rooms.get(name) or self._open(name)).put(id_)

    def states(self) -> list[GuardState]:
        """All that are declared, and those that messages name all the same."""
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
        # Another server has it, or another process; or it waits for its topic's release rate.
        return "this server has not asked its guard" if late > _LONG else None

    async def run(self) -> None:
        """Has them asked, for ever."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for room in self._rooms.values():
                nursery.start_soon(room.run)
            await trio.sleep_forever()

    async def look_for_undeclared(self) -> None:
        """Tells of guards that messages wait for and that are not declared here."""
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
            elif self._alone():
                await self._store.write(guarded.forget, name)

    def _open(self, name: str) -> GuardRoom:
        declared = self._declared.get(name)
        room = self._rooms[name] = GuardRoom(
            _nobody if declared is None else self._ask(declared).ask,
            lambda ids: self._store.read(guarded.questions, ids),
            self._promote,
            self._clock.now,
            lambda: self._clock.in_doubt,
            lambda why: self._holds(name, why),
            lambda: self._answers(name),
        )
        self._metrics.watch_guard(name, lambda: len(room))
        if self._nursery is not None:
            self._nursery.start_soon(room.run)
        return room

    async def _promote(self, answers: Mapping[int, bool], fresh: Callable[[], bool]) -> set[int]:
        async def some(ids: Sequence[int]) -> set[int]:
            these = {id_: answers[id_] for id_ in ids}
            promoted, suppressed, left = await self._store.promote_guarded(these, self._clock.now(), fresh)
            self._streamed(promoted)
            for one in suppressed:
                self._metrics.suppressed(self._directory.name_of(one.topic_id), 1)
            return left

        return {id_ for left in await self._wholly(list(answers), some) for id_ in left}

    def _holds(self, name: str, why: str) -> None:
        self._metrics.guard_failed(name)
        now = trio.current_time()
        told = self._told.setdefault(name, _Told(float("-inf"), now))
        if now - told.at >= _REMIND:
            told.at = now
            facts = {"guard": name, "because": why, "waiting": len(self._rooms[name])}
            log.warning("guard_holds", **facts)
            self._alarm.ring("guard_holds", at=format_time(self._clock.now()), **facts)

    def _answers(self, name: str) -> None:
        if (told := self._told.pop(name, None)) is not None:
            seconds = round(trio.current_time() - told.since, 1)
            log.info("guard_answers", guard=name, seconds=seconds, waiting=len(self._rooms[name]))


async def _nobody(_: Sequence[str]) -> Answers:
    raise NoAnswer("it is not declared in this server's settings", of_all=True)
