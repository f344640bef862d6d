"""The store as the service sees it: the functions of its rooms, each in a transaction.

`read` and `write` run any of them: `await store.read(tracing.find_message, id_)`. What has a method here needs more
than a transaction: ids to make, tallies to count in, or another try when a key was taken already.
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from attrs import define, field

from ..wheel.ladder import Ladder
from . import catalogue
from .catalogue import TopicDraft
from .cleaning import removal
from .errors import DuplicateKey, Locked
from .groups import turns
from .groups.locked_rows import Expected
from .groups.reach import Reach, reach_of
from .ids import SHARDS_OF_DELAY, IdMaker
from .operating import redriving, replaying, seeking
from .operating.redriving import Letters, Redriven
from .operating.replaying import Range, Replayed
from .operating.seeking import Sought
from .ports import Backend, Transaction, Work
from .records import (
    ClaimRequest,
    Conflict,
    Gather,
    Group,
    Promoted,
    Publication,
    Queue,
    Receipt,
    Settlement,
    Topic,
    Turn,
    Verdict,
)
from .schedules.course import Courses, Fired
from .schedules.firing import Firing
from .stream import publishing, sealing
from .stream.positions import Position
from .stream.sealing import Sealed
from .timers import keyed, timers
from .timers.guarded import Guarding, Suppressed
from .timers.order import Orders
from .timers.timers import Brought

P = ParamSpec("P")
T = TypeVar("T")

IDEMPOTENCY_WINDOW = 24 * 3600 * 1000
_KEY_TRIES = 6
_PAGE = 10_000
_WIDEST_SPREAD = 1000
"""How late a new id may be made after a duplicate key, milliseconds."""
_SPREADS = (*(min(4**tried - 1, _WIDEST_SPREAD) for tried in range(_KEY_TRIES - 1)), _WIDEST_SPREAD)
"""The same at each try: first in the very millisecond, then up to a second later."""

_LOOKS = 16
"""Batches that look for idempotency keys behind one that knew some."""

LIGHT = 100
"""Of more entries than these a promotion is heavy."""
_PIECE = 250
"""Entries that are promoted before a look whether others wait for the end, where there is one writer. Pieces of a
hundred take a tenth longer."""

_Function = Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]]
_OverSchedules = Callable[[Transaction, Firing], Awaitable[T]]
_Answers = list[list[Receipt] | Conflict | None]
Kind = Literal["read", "write", "note"]


@define
class Store:
    """Everything durable. All of it may raise the errors of `store.errors`; what is raised has left nothing half done,
    but for `OutcomeUnknown`."""

    backend: Backend
    watch: Callable[[Kind], AbstractContextManager[Any]] = field(default=nullcontext, kw_only=True)
    """Around each question to the backend."""
    ids: IdMaker = field(factory=partial(IdMaker, climbing=True))
    tally_shard: int = 0
    """Whose rows of `tally` this process counts in."""
    window: int = IDEMPOTENCY_WINDOW
    ladder: Ladder = field(factory=Ladder)
    """Of groups for which neither they nor their topic name one."""
    courses: Courses | None = None
    """None: messages of schedules stay where they are."""
    orders: Orders = field(factory=Orders)
    """What is known of the order in which messages are to be promoted."""
    _expected: dict[int, Expected | None] = field(factory=dict[int, Expected | None], init=False)
    """By group id: where its next claim is likely to begin. It need not be true."""
    _reach: dict[int, Reach | None] = field(factory=dict[int, Reach | None], init=False)
    """By group id: what is known of the queues of other nodes. It need not be true."""
    _looks: int = field(default=0, init=False)
    """Batches in which idempotency keys are looked for before anything is written: most are new, and a look costs as
    much as a row."""

    async def read(self, function: _Function[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function over a transaction finds; each of its queries sees what was committed when it began."""
        with self.watch("read"):
            return await self.backend.read(lambda tx: function(tx, *args, **kwargs))

    async def write(self, function: _Function[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function over a transaction returns, once it is committed. It may be run again."""
        return await self._write(lambda tx: function(tx, *args, **kwargs))

    async def _write(self, work: Work[T]) -> T:
        with self.watch("write"):
            return await self.backend.write(work)

    async def note(self, function: _Function[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function over a transaction returns whose statements are committed one by one; see `Backend.note`."""
        with self.watch("note"):
            return await self.backend.note(lambda tx: function(tx, *args, **kwargs))

    async def now(self) -> int:
        """The database's clock, Unix milliseconds."""
        with self.watch("read"):
            return await self.backend.now()

    async def exact_now(self) -> float:
        """The same with the fraction of its millisecond, for the service's own clock."""
        with self.watch("read"):
            return await self.backend.exact_now()

    async def publish(self, publications: Sequence[Publication], now: int) -> list[list[Receipt] | Conflict]:
        """Accepts the publications in one transaction; an answer to each, in order: its receipts, or the conflict."""
        answers = await self._publish(publications, now, free=False)
        return [answer for answer in answers if answer is not None]

    async def publish_free(self, publications: Sequence[Publication], now: int) -> _Answers:
        """As `publish`, without waiting for a row: None for those that need one which somebody holds."""
        return await self._publish(publications, now, free=True)

    async def _publish(self, publications: Sequence[Publication], now: int, *, free: bool) -> _Answers:
        async def attempt(spread: int, *, look: bool = True) -> _Answers:
            made: list[int] = []

            async def work(tx: Transaction) -> publishing.Publishing:
                run = publishing.Publishing(self.ids, now, self.window, self.tally_shard, spread, made, free, look)
                await run.write(tx, publications)
                return run

            return (await self.write(work)).answers()

        if not self._looks and _may_be_in_vain(publications):
            try:
                return await attempt(0, look=False)
            except DuplicateKey:  # mostly a request that comes again: others may follow it
                self._looks = _LOOKS
        answers = await self._again(attempt, now)
        self._looks = _LOOKS if any(map(_is_known, answers)) else max(0, self._looks - 1)
        return answers

    async def promote(self, entries: Sequence[int], now: int) -> list[Promoted]:
        """Hands what is due among these wheel entries to the stream, standing in line for its queues."""
        return (await self.promote_some(entries, now, None, whole=True)).promoted

    async def promote_some(
        self, entries: Sequence[int], now: int, behind: Collection[int] | None = (), *, whole: bool = False
    ) -> Brought:
        """Hands what is due among these wheel entries to the stream: the first of them until somebody waits who has
        less to do, or the `whole`. Without waiting for a queue, unless `behind` is None; see `timers`."""
        piece = len(entries) if whole or self.backend.shared else _PIECE
        made: dict[tuple[int, int], int] = {}
        spread = 0

        async def work(tx: Transaction) -> Brought:
            guarding, firing = Guarding(now, self.tally_shard + 2), self._firing(now, spread, made)
            promoted, held, done = await timers.promote_pieces(
                tx,
                entries,
                piece,
                self.backend.waited_for,
                now,
                self.tally_shard + 2,
                behind,
                judge=firing,
                guarding=guarding,
                orders=self.orders,
            )
            fired = Fired() if firing is None else firing.fired
            return Brought(promoted, held, entries[done:], guarding.left, fired)

        for spread in _SPREADS:
            if spread and self.courses is not None:
                self._anew(made)
            try:
                with self.watch("write"):
                    return await self.backend.write(work, heavy=len(entries) > LIGHT)
            except DuplicateKey:
                if spread == _WIDEST_SPREAD:
                    raise
                await self._reseat(now)
        raise AssertionError("the last try ends it")

    async def promote_guarded(
        self, answers: Mapping[int, bool], now: int, fresh: Callable[[], bool]
    ) -> tuple[list[Promoted], list[Suppressed], set[int]]:
        """Hands messages to the stream whose guards say so, and ends those of which they say no, while the answers are
        `fresh`; without waiting for a queue. Beside what went and what ended, those that could not go now."""
        run = Guarding(now, self.tally_shard + 6)

        async def work(tx: Transaction) -> tuple[list[Promoted], timers.ByQueue]:
            nonlocal run
            run = Guarding(now, self.tally_shard + 6, answers, fresh)
            return await timers.promote(tx, list(answers), now, self.tally_shard + 6, behind=(), guarding=run)

        promoted, held = await self._again(lambda _: self.write(work), now)
        return promoted, run.suppressed, {*run.left, *(id_ for some in held.values() for id_ in some)}

    async def schedule(self, function: _OverSchedules[T], now: int) -> tuple[T, Fired]:
        """What a function over schedules returns, and what waits since, once it is committed; see `schedules`."""
        made: dict[tuple[int, int], int] = {}

        async def attempt(spread: int) -> tuple[T, Fired]:
            if spread:
                self._anew(made)

            async def work(tx: Transaction) -> tuple[T, Fired]:
                firing = self._firing(now, spread, made)
                if firing is None:
                    raise ValueError("who changes schedules knows their courses")
                return await function(tx, firing), firing.fired

            return await self._write(work)

        return await self._again(attempt, now)

    def _firing(self, now: int, spread: int, made: dict[tuple[int, int], int]) -> Firing | None:
        if self.courses is None:
            return None
        return Firing(self.courses, self.ids, now, self.tally_shard + 5, self.orders, spread, made)

    def _anew(self, made: dict[tuple[int, int], int]) -> None:
        """One of these ids is somebody else's."""
        self.ids.anew()
        made.clear()

    async def cancel(self, ids: Sequence[int], now: int) -> list[Verdict]:
        """Cancels waiting messages; a verdict for each."""
        return await self.write(timers.cancel, ids, now, self.tally_shard + 1)

    async def set_timers(self, wishes: Sequence[keyed.Wish], now: int) -> list[keyed.Answer]:
        """Sets and cancels timers by key in one transaction; an answer for each."""
        held = set[keyed.Key]()

        async def attempt(spread: int) -> list[keyed.Answer]:
            made: dict[int, int] = {}

            async def work(tx: Transaction) -> list[keyed.Answer]:
                run = keyed.Setting(self.ids, now, self.window, self.tally_shard + 4, spread, made, held)
                return await run.write(tx, wishes)

            return await self.write(work)

        try:
            return await self._again(attempt, now)
        except Locked:
            # One that was just made elsewhere: which, only a look at fewer and fewer of them tells.
            held |= await self._held(sorted({wish.of for wish in wishes}))
        return await self._again(attempt, now)

    async def _held(self, keys: Sequence[keyed.Key]) -> set[keyed.Key]:
        """Those of these timers that others hold."""
        try:
            await self.write(keyed.probe, keys)
        except Locked:
            if len(keys) == 1:
                return set(keys)
            middle = len(keys) // 2
            return await self._held(keys[:middle]) | await self._held(keys[middle:])
        return set()

    async def count_outbox(self, limit: int) -> dict[int, tuple[int, int]]:
        """Counts a batch of what users have cancelled in their own transactions; see `timers`."""
        if not await self.read(lambda tx: tx.fetch("outbox_cancel.some", int)):
            return {}  # the usual case, which wants no transaction
        return await self.write(timers.count_outbox, self.tally_shard + 3, limit)

    async def turn(
        self,
        group: Group,
        settlements: Sequence[Settlement],
        requests: Sequence[ClaimRequest],
        now: int,
        present: Collection[str] = (),
        *,
        free: bool = False,
        place: tuple[int, int] = (0, 1),
        gather: Gather | None = None,
    ) -> Turn:
        """Settles and claims for one group in one transaction; see `turns`. `place` is that of this node among the
        nodes, counted from 0, and how many they are. With `gather` the turn waits for the group first, and is then of
        those that it names, at its time."""

        async def attempt(spread: int) -> Turn:
            turn, expected, reach = await self.write(
                turns.take,
                group,
                settlements,
                requests,
                now=now,
                make_id=self._make_id(spread),
                present=present,
                expected=self._expected.get(group.id),
                free=free,
                reach=reach_of(group, place, self._reach.get(group.id)),
                gather=gather,
            )
            if turn.claims:
                self._expected[group.id], self._reach[group.id] = expected, reach
            return turn

        return await self._again(attempt, now)

    def forget_group(self, group: Group) -> None:
        """The group is removed."""
        self._expected.pop(group.id, None)
        self._reach.pop(group.id, None)

    async def put_topic(
        self, draft: TopicDraft, named: Set[str], check: Callable[[Topic, TopicDraft], None], now: int
    ) -> tuple[Topic, bool]:
        """Makes the topic, or changes what is named of it; see `catalogue.put_topic`."""
        return await self._sealing(lambda: self.write(catalogue.put_topic, draft, named, check, now))

    async def change_topic(self, topic: Topic, draft: TopicDraft, now: int) -> None:
        """Sets what may be changed of a topic."""
        await self._sealing(lambda: self.write(catalogue.change_topic, topic, draft, now))

    async def seal(self, queue_id: int, now: int, *, at_once: bool = False, widest: int = sealing.WIDEST) -> Sealed:
        """Moves the end of a queue on over what is committed; see `sealing`."""
        return await self._sealing(lambda: self.write(sealing.seal, queue_id, now, at_once=at_once, widest=widest))

    async def groups(self, topics: Sequence[Topic]) -> list[Group]:
        """All groups of these topics."""
        return await self.read(catalogue.find_groups, topics, self.ladder)

    async def add_group(
        self,
        topic: Topic,
        name: str,
        now: int,
        *,
        ladder: Ladder | None = None,
        latest: bool = False,
        since: int | None = None,
    ) -> Group:
        """The group, made if it is missing."""
        return await self.write(
            catalogue.add_group, topic, name, now, self.ladder, ladder=ladder, latest=latest, since=since
        )

    async def redrive(self, group: Group, letters: Letters, limit: int, now: int) -> Redriven:
        """Puts a batch of dead letters onto their group's ladder, due at once, with attempt 1."""
        return await self._again(
            lambda spread: self.write(redriving.redrive, group, letters, limit, now, self._make_id(spread)), now
        )

    async def seek(self, group: Group, queues: Sequence[Queue] | None, position: Position, now: int) -> Sought:
        """Closes the group's claims on these queues of its topic and moves it; None is all."""
        return await self._again(
            lambda spread: self.write(seeking.seek, group, queues, position, now, self._make_id(spread)), now
        )

    async def replay(self, group: Group, range_: Range, limit: int, now: int) -> Replayed:
        """Puts a batch of a range of the stream onto the group's ladder, due at once, with attempt 1."""
        return await self._again(
            lambda spread: self.write(replaying.replay, group, range_, limit, now, self._make_id(spread)), now
        )

    def _make_id(self, spread: int) -> Callable[[int], int]:
        """The id of a retry from when it is due, made up to `spread` milliseconds later."""
        return partial(self.ids.make, spread=spread)

    async def remove_topic(self, topic: Topic, now: int, *, force: bool = False) -> bool:
        """The topic is no more; False when it was not there. Raises `Unsettled`, unless by `force`."""
        if not force:
            await self.read(removal.refuse_unsettled, topic)
            removal.refuse_waiting(topic, await self._count_waiting(topic))
        return await self.write(removal.remove_topic, topic, now, force=force)

    async def _count_waiting(self, topic: Topic) -> int:
        waiting = 0
        for shard in range(SHARDS_OF_DELAY):
            after: int | None = 0
            while after is not None:
                some, after = await self.read(removal.count_waiting, topic.id, shard, after, _PAGE)
                waiting += some
        return waiting

    async def _again(self, attempt: Callable[[int], Awaitable[T]], now: int) -> T:
        """Runs `attempt(spread)` until no key is taken: first in the very millisecond, then up to a second later."""
        for spread in _SPREADS[:-1]:
            try:
                return await attempt(spread)
            except DuplicateKey:
                await self._reseat(now)
        return await attempt(_WIDEST_SPREAD)

    async def _sealing(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Once more when a writer has filled a hole just before its tombstone."""
        for _ in range(_KEY_TRIES - 1):
            try:
                return await attempt()
            except DuplicateKey:
                continue
        return await attempt()

    async def _reseat(self, now: int) -> None:
        """It may have been an offset that was taken: whoever draws them hears of all that are."""
        ends: dict[int, int] = {}
        for queue_id in await self.read(sealing.overrun):
            ends[queue_id] = await self.read(sealing.last_end, queue_id=queue_id)
        for queue_id in await self.backend.reseat(ends):
            while (await self.seal(queue_id, now, at_once=True)).more:
                pass


def _may_be_in_vain(publications: Sequence[Publication]) -> bool:
    """Whether nothing is left of a batch that is refused: elsewhere than in the store, offsets stay drawn."""
    return "redis" not in {publication.drafts[0].topic.sequencer for publication in publications}


def _is_known(answer: list[Receipt] | Conflict | None) -> bool:
    return isinstance(answer, Conflict) or (answer is not None and answer[0].replayed)
