"""The store as the service sees it: runs the functions of the rooms of `store/`, each in a transaction.

`read` and `write` run any of them: `await store.read(tracing.find_message, id_)`. A function has a method of its own
here when it needs more than a transaction: ids to make, tallies to count in, or another try after a duplicate key.
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
from .timers.timers import Brought, Promotion

P = ParamSpec("P")
T = TypeVar("T")

IDEMPOTENCY_WINDOW = 24 * 3600 * 1000
_KEY_TRIES = 6
_PAGE = 10_000
_WIDEST_SPREAD = 1000
"""Milliseconds that a new id may be late at most, after a duplicate key."""
_SPREADS = (*(min(4**tried - 1, _WIDEST_SPREAD) for tried in range(_KEY_TRIES - 1)), _WIDEST_SPREAD)
"""Milliseconds that a new id may be late, for each try: none at the first, up to a second at the last."""

_LOOKS = 16
"""How many batches look up their idempotency keys first, after a batch that had a known key."""

LIGHT = 100
"""A promotion of more entries than this is heavy; see `Backend.write`."""
_PIECE = 250
"""Where there is one writer: entries that are promoted before checking whether other transactions wait. With pieces of
a hundred, promotion takes a tenth longer."""

_Function = Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]]
_OverSchedules = Callable[[Transaction, Firing], Awaitable[T]]
_Answers = list[list[Receipt] | Conflict | None]
Kind = Literal["read", "write", "note"]


@define
class Store:
    """Everything durable. Every method may raise the errors of `store.errors`. After an error nothing is half done;
    only after `OutcomeUnknown` the transaction may have been committed."""

    backend: Backend
    watch: Callable[[Kind], AbstractContextManager[Any]] = field(default=nullcontext, kw_only=True)
    """Makes a context manager that is entered around each call of the backend."""
    ids: IdMaker = field(factory=partial(IdMaker, climbing=True))
    tally_shard: int = 0
    """The first shard of `tally` that this process counts in; each kind of work adds a number of its own."""
    window: int = IDEMPOTENCY_WINDOW
    ladder: Ladder = field(factory=Ladder)
    """The retry ladder of groups when neither the group nor its topic names one."""
    courses: Courses | None = None
    """None: messages of schedules are not promoted."""
    orders: Orders = field(factory=Orders)
    """What this process knows of the order in which messages of ordered topics are to be promoted."""
    _expected: dict[int, Expected | None] = field(factory=dict[int, Expected | None], init=False)
    """By group id: where the group's next claim is likely to begin. A guess, which may be wrong."""
    _reach: dict[int, Reach | None] = field(factory=dict[int, Reach | None], init=False)
    """By group id: what was last seen of the queues of other nodes. It may be out of date."""
    _looks: int = field(default=0, init=False)
    """How many more batches look up their idempotency keys before they write. Mostly 0: most keys are new, and a lookup
    costs as much as a row."""

    async def read(self, function: _Function[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a function over a transaction that only reads, and returns its result. Each query sees what was
        committed when that query began."""
        with self.watch("read"):
            return await self.backend.read(lambda tx: function(tx, *args, **kwargs))

    async def write(self, function: _Function[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a function over a transaction, commits, and returns the function's result. It may run more than once."""
        return await self._write(lambda tx: function(tx, *args, **kwargs))

    async def _write(self, work: Work[T]) -> T:
        with self.watch("write"):
            return await self.backend.write(work)

    async def note(self, function: _Function[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a function whose statements are committed one by one, and returns its result; see `Backend.note`."""
        with self.watch("note"):
            return await self.backend.note(lambda tx: function(tx, *args, **kwargs))

    async def now(self) -> int:
        """The database's clock, Unix milliseconds."""
        with self.watch("read"):
            return await self.backend.now()

    async def exact_now(self) -> float:
        """As `now`, with fractions of a millisecond, for the service's own clock."""
        with self.watch("read"):
            return await self.backend.exact_now()

    async def publish(self, publications: Sequence[Publication], now: int) -> list[list[Receipt] | Conflict]:
        """Accepts the publications in one transaction. Returns an answer for each, in order: its receipts or its
        conflict."""
        answers = await self._publish(publications, now, free=False)
        return [answer for answer in answers if answer is not None]

    async def publish_free(self, publications: Sequence[Publication], now: int) -> _Answers:
        """As `publish`, but waits for no locked row: the answer to a publication that needs one is None."""
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
            except DuplicateKey:  # mostly a request that was sent again; more of them may follow
                self._looks = _LOOKS
        answers = await self._again(attempt, now)
        self._looks = _LOOKS if any(map(_is_known, answers)) else max(0, self._looks - 1)
        return answers

    async def promote(self, entries: Sequence[int], now: int) -> list[Promoted]:
        """Moves those of these wheel entries that are due to the stream, and waits for the locks of their queues."""
        return (await self.promote_some(entries, now, None, whole=True)).promoted

    async def promote_some(
        self, entries: Sequence[int], now: int, behind: Collection[int] | None = (), *, whole: bool = False
    ) -> Brought:
        """Moves those of these wheel entries that are due to the stream: with `whole` all, else piece by piece until a
        shorter transaction waits. Waits for no queue, unless `behind` is None; see `Promotion.promote`."""
        piece = len(entries) if whole or self.backend.shared else _PIECE
        made: dict[tuple[int, int], int] = {}
        spread = 0

        async def work(tx: Transaction) -> Brought:
            guarding, firing = Guarding(now, self.tally_shard + 2), self._firing(now, spread, made)
            promotion = Promotion(tx, now, self.tally_shard + 2, firing, guarding, self.orders)
            promoted, done = await promotion.promote_pieces(entries, piece, self.backend.waited_for, behind)
            fired = Fired() if firing is None else firing.fired
            return Brought(promoted, promotion.held, entries[done:], guarding.left, fired)

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
        """Moves messages whose guards said yes to the stream, and suppresses those whose guards said no, as long as the
        answers are `fresh`. Waits for no queue. Returns the promoted, the suppressed, and the ids that could not go
        now."""
        run = Guarding(now, self.tally_shard + 6)

        async def work(tx: Transaction) -> tuple[list[Promoted], timers.ByQueue]:
            nonlocal run
            run = Guarding(now, self.tally_shard + 6, answers, fresh)
            promotion = Promotion(tx, now, self.tally_shard + 6, guarding=run)
            return await promotion.promote(list(answers), behind=()), promotion.held

        promoted, held = await self._again(lambda _: self.write(work), now)
        return promoted, run.suppressed, {*run.left, *(id_ for some in held.values() for id_ in some)}

    async def schedule(self, function: _OverSchedules[T], now: int) -> tuple[T, Fired]:
        """Runs a function that changes schedules and commits. Returns the function's result, and which messages of
        schedules wait or no longer wait since; see `schedules`."""
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
        """Discards ids after a duplicate key: another message has one of them."""
        self.ids.anew()
        made.clear()

    async def cancel(self, ids: Sequence[int], now: int) -> list[Verdict]:
        """Cancels waiting messages; returns a verdict for each."""
        return await self.write(timers.cancel, ids, now, self.tally_shard + 1)

    async def set_timers(self, wishes: Sequence[keyed.Wish], now: int) -> list[keyed.Answer]:
        """Sets and cancels timers by key in one transaction; returns an answer for each."""
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
            # Another transaction has just made one of these timers and is still open. Only halving finds which one.
            held |= await self._held(sorted({wish.of for wish in wishes}))
        return await self._again(attempt, now)

    async def _held(self, keys: Sequence[keyed.Key]) -> set[keyed.Key]:
        """The timers among these that other transactions hold."""
        try:
            await self.write(keyed.probe, keys)
        except Locked:
            if len(keys) == 1:
                return set(keys)
            middle = len(keys) // 2
            return await self._held(keys[:middle]) | await self._held(keys[middle:])
        return set()

    async def count_outbox(self, limit: int) -> dict[int, tuple[int, int]]:
        """Counts a batch of messages that users have cancelled in their own transactions; see `timers.count_outbox`."""
        if not await self.read(lambda tx: tx.fetch("outbox_cancel.some", int)):
            return {}  # the usual case, which needs no transaction
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
        """Settles and claims for one group in one transaction; see `turns`. `place` is this node's number, counted from
        0, and the number of nodes. With `gather` the turn first waits for the group's lock, then calls `gather`, and
        uses the settlements, the requests and the time that it returns."""

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
        """Forgets what is remembered of a group, since it is removed."""
        self._expected.pop(group.id, None)
        self._reach.pop(group.id, None)

    async def put_topic(
        self, draft: TopicDraft, named: Set[str], check: Callable[[Topic, TopicDraft], None], now: int
    ) -> tuple[Topic, bool]:
        """Makes the topic, or changes those of its settings that are named; see `catalogue.put_topic`."""
        return await self._sealing(lambda: self.write(catalogue.put_topic, draft, named, check, now))

    async def change_topic(self, topic: Topic, draft: TopicDraft, now: int) -> None:
        """Sets the changeable settings of a topic."""
        await self._sealing(lambda: self.write(catalogue.change_topic, topic, draft, now))

    async def seal(self, queue_id: int, now: int, *, at_once: bool = False, widest: int = sealing.WIDEST) -> Sealed:
        """Moves the end of a queue forward over committed messages; see `sealing`."""
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
        """Returns the group; makes it if it is missing."""
        return await self.write(
            catalogue.add_group, topic, name, now, self.ladder, ladder=ladder, latest=latest, since=since
        )

    async def redrive(self, group: Group, letters: Letters, limit: int, now: int) -> Redriven:
        """Puts a batch of dead letters onto their group's ladder, due at once, with attempt 1."""
        return await self._again(
            lambda spread: self.write(redriving.redrive, group, letters, limit, now, self._make_id(spread)), now
        )

    async def seek(self, group: Group, queues: Sequence[Queue] | None, position: Position, now: int) -> Sought:
        """Closes the group's claims on these queues of its topic and moves its cursors; None means all queues."""
        return await self._again(
            lambda spread: self.write(seeking.seek, group, queues, position, now, self._make_id(spread)), now
        )

    async def replay(self, group: Group, range_: Range, limit: int, now: int) -> Replayed:
        """Puts a batch of messages from a range of the stream onto the group's ladder, due at once, with attempt 1."""
        return await self._again(
            lambda spread: self.write(replaying.replay, group, range_, limit, now, self._make_id(spread)), now
        )

    def _make_id(self, spread: int) -> Callable[[int], int]:
        """A function from a retry's due time to an id for it, made up to `spread` milliseconds later."""
        return partial(self.ids.make, spread=spread)

    async def remove_topic(self, topic: Topic, now: int, *, force: bool = False) -> bool:
        """Removes the topic; returns False when there was none. Raises `Unsettled` while messages wait or are
        unsettled, unless by `force`."""
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
        """Runs `attempt(spread)` until it meets no duplicate key: ids are made first in the very millisecond, then up
        to a second later."""
        for spread in _SPREADS[:-1]:
            try:
                return await attempt(spread)
            except DuplicateKey:
                await self._reseat(now)
        return await attempt(_WIDEST_SPREAD)

    async def _sealing(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Runs `attempt` again when a writer filled a hole just before its tombstone was written."""
        for _ in range(_KEY_TRIES - 1):
            try:
                return await attempt()
            except DuplicateKey:
                continue
        return await attempt()

    async def _reseat(self, now: int) -> None:
        """After a duplicate key, which may have been an offset: tells sequencers elsewhere of all offsets that are
        taken, and seals the queues that have none."""
        ends: dict[int, int] = {}
        for queue_id in await self.read(sealing.overrun):
            ends[queue_id] = await self.read(sealing.last_end, queue_id=queue_id)
        for queue_id in await self.backend.reseat(ends):
            while (await self.seal(queue_id, now, at_once=True)).more:
                pass


def _may_be_in_vain(publications: Sequence[Publication]) -> bool:
    """Whether a refused batch leaves nothing behind. Offsets that were drawn from Redis stay drawn."""
    return "redis" not in {publication.drafts[0].topic.sequencer for publication in publications}


def _is_known(answer: list[Receipt] | Conflict | None) -> bool:
    return isinstance(answer, Conflict) or (answer is not None and answer[0].replayed)
