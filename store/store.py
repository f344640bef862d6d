"""The store as the service sees it: each method is one transaction over the backend.

The functions that do the work stand in `publishing`, `timers`, `claims`, `catalogue` and `tracing`; here they are given
what they need, and run again with new ids when a key was taken already.
"""

import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from attrs import define, field

from ..wheel.ladder import Ladder
from . import catalogue
from .catalogue import TopicDraft
from .cleaning import leftovers, removal, retention
from .cleaning.leftovers import Leftovers
from .cleaning.removal import Cleared, Place, Tombstone
from .cleaning.retention import Removed
from .errors import DuplicateKey
from .groups import claims, clients, holdings
from .groups.claims import Turning
from .groups.clients import Left, Registration
from .groups.holdings import Holding
from .groups.ordered_turns import OrderedTurning
from .ids import SHARDS_OF_DELAY, IdMaker
from .looking import dead_letters, finding, found_pages, tracing
from .looking.dead_letters import DeadPage, DeadSearch
from .looking.finding import Wanted
from .looking.found_pages import FoundPage
from .operating import redriving, replaying
from .operating.positions import Position, offset_of
from .operating.redriving import Letters, Redriven, Redriving
from .operating.replaying import Range, Replayed, Replaying
from .operating.seeking import Seeking, Sought
from .ports import Backend, Row, Transaction, Work
from .records import (
    ClaimKey,
    ClaimRequest,
    Conflict,
    DeadLetter,
    Delivered,
    Found,
    Group,
    GroupState,
    Promoted,
    Publication,
    Queue,
    ReadAnswer,
    ReadRequest,
    Receipt,
    Settlement,
    Topic,
    TopicState,
    Turn,
    Verdict,
)
from .stream import publishing, readers, sealing, stretches
from .stream.sealing import Sealed
from .timers import timers

T = TypeVar("T")

IDEMPOTENCY_WINDOW = 24 * 3600 * 1000
_KEY_TRIES = 6
_PAGE = 10_000
_TOPICS = 1_000
_WIDEST_SPREAD = 1000
"""How late a new id may be made after a duplicate key, milliseconds."""


@define
class Store:
    """Everything durable. All of it may raise the errors of `store.errors`; what is raised has left nothing half done,
    but for `OutcomeUnknown`."""

    backend: Backend
    ids: IdMaker = field(factory=IdMaker)
    maker: int = 0
    """Whose rows of `tally` this process counts in."""
    window: int = IDEMPOTENCY_WINDOW
    ladder: Ladder = field(factory=Ladder)
    """Of groups for which neither they nor their topic name one."""
    _expected: dict[int, tuple[int, int] | None] = field(factory=dict[int, tuple[int, int] | None], init=False)
    """By group id: where its next claim is likely to begin. It need not be true."""

    async def publish(self, publications: Sequence[Publication], now: int) -> list[list[Receipt] | Conflict]:
        """Accepts the publications in one transaction; an answer to each, in order: its receipts, or the conflict."""

        answers = await self._publish(publications, now, free=False)
        return [answer for answer in answers if answer is not None]

    async def publish_free(
        self, publications: Sequence[Publication], now: int
    ) -> list[list[Receipt] | Conflict | None]:
        """As `publish`, without waiting for a row: None for those that need one which somebody holds."""
        return await self._publish(publications, now, free=True)

    async def _publish(
        self, publications: Sequence[Publication], now: int, *, free: bool
    ) -> list[list[Receipt] | Conflict | None]:
        async def attempt(spread: int) -> list[list[Receipt] | Conflict | None]:
            made: dict[tuple[int, int], int] = {}

            async def work(tx: Transaction) -> list[list[Receipt] | Conflict | None]:
                run = publishing.Publishing(self.ids, now, self.window, self.maker, spread, made, free)
                return await run.write(tx, publications)

            return await self.backend.write(work)

        return await self._again(attempt, now)

    async def promote(self, entries: Sequence[int], now: int) -> list[Promoted]:
        """Hands what is due among these wheel entries to the stream."""
        return (await self._promote(entries, now, None))[0]

    async def promote_free(
        self, entries: Sequence[int], now: int, behind: Collection[int] = ()
    ) -> tuple[list[Promoted], timers.Held]:
        """As `promote`, without waiting for a queue; what cannot go now, by its queue. See `timers`."""
        return await self._promote(entries, now, behind)

    async def queues_of(self, entries: Sequence[int]) -> timers.Held:
        """These wheel entries by the queue they go to."""
        return await self.backend.read(lambda tx: timers.queues_of(tx, entries))

    async def _promote(
        self, entries: Sequence[int], now: int, behind: Collection[int] | None
    ) -> tuple[list[Promoted], timers.Held]:
        async def attempt(_: int) -> tuple[list[Promoted], timers.Held]:
            return await self.backend.write(lambda tx: timers.promote(tx, entries, now, self.maker + 2, behind=behind))

        return await self._again(attempt, now)

    async def cancel(self, ids: Sequence[int], now: int) -> list[Verdict]:
        """Cancels waiting messages; a verdict for each."""
        return await self.backend.write(lambda tx: timers.cancel(tx, ids, now, self.maker + 1))

    async def count_outbox(self, limit: int) -> dict[int, tuple[int, int]]:
        """Counts a batch of what users have cancelled in their own transactions; see `timers`."""
        if not await self.backend.read(lambda tx: tx.fetch("outbox_cancel.some")):
            return {}  # the usual case, which wants no transaction
        return await self.backend.write(lambda tx: timers.count_outbox(tx, self.maker + 3, limit))

    async def reschedule(self, moves: Sequence[tuple[int, int]], now: int) -> list[Verdict]:
        """Moves waiting messages, each an (id, deliver_at); a verdict for each."""
        return await self.backend.write(lambda tx: timers.reschedule(tx, moves, now))

    async def turn(
        self,
        group: Group,
        settlements: Sequence[Settlement],
        requests: Sequence[ClaimRequest],
        now: int,
        present: Collection[str] = (),
        *,
        free: bool = False,
    ) -> Turn:
        """Settles and claims for one group in one transaction; `present`: see `OrderedTurning`, `free`: `Settling`."""

        async def attempt(spread: int) -> Turn:
            async def work(tx: Transaction) -> tuple[Turn, tuple[int, int] | None]:
                run = self._turning(group, now, spread, present, free=free)
                return await run.write(tx, settlements, requests), run.expects

            turn, expects = await self.backend.write(work)
            if requests:
                self._expected[group.id] = expects
            return turn

        return await self._again(attempt, now)

    def _turning(self, group: Group, now: int, spread: int, present: Collection[str], *, free: bool) -> Turning:
        if group.topic.ordered:
            return OrderedTurning(group, now, self.ids, spread, free=free, present=present)
        return Turning(group, now, self.ids, spread, expected=self._expected.get(group.id), free=free)

    def forget_group(self, group: Group) -> None:
        """The group is removed."""
        self._expected.pop(group.id, None)

    async def claims_over(self, now: int, limit: int) -> list[tuple[ClaimKey, int]]:
        """Claims whose lease has run out, each with the end of its lease, oldest first."""
        rows = await self.backend.read(lambda tx: tx.fetch("claim.over", now, limit))
        return [(ClaimKey(*key), lease_until) for *key, lease_until in rows]

    async def find_places(self, key: ClaimKey) -> dict[int, int] | None:
        """Position by message id in a claim, open or ended; None when the store knows no such claim."""
        return await self.backend.read(lambda tx: claims.find_places(tx, key))

    async def due_messages(self, shard: int, after: int, until: int, limit: int) -> list[Row]:
        """The due scan over one shard of `delay`; see `timers`."""
        return await self.backend.read(lambda tx: timers.due_messages(tx, shard, after, until, limit))

    async def due_moved(self, shard: int, after: tuple[int, int], until: int, limit: int) -> list[Row]:
        """The due scan over one shard of `moved`; see `timers`."""
        return await self.backend.read(lambda tx: timers.due_moved(tx, shard, after, until, limit))

    async def due_retries(self, shard: int, after: int, until: int, limit: int) -> list[Row]:
        """The due scan over one shard of `retry`; see `timers`."""
        return await self.backend.read(lambda tx: timers.due_retries(tx, shard, after, until, limit))

    async def near(self, since: int, until: int, limit: int) -> list[tuple[int, int]]:
        """(due, entry) of what waits between two milliseconds, at most `limit` of each kind."""
        return await self.backend.read(lambda tx: timers.near(tx, since, until, limit))

    async def topics(self, names: Sequence[str] | None = None) -> list[Topic]:
        """The topics of these names that exist; or all of them by name, in pages."""
        if names is not None:
            return await self.backend.read(lambda tx: catalogue.find_topics(tx, names))
        topics: list[Topic] = []
        while page := await self.topics_by_name(topics[-1].name if topics else "", _TOPICS):
            topics += page
        return topics

    async def topic_page(self, after: int, limit: int) -> list[Topic]:
        """Topics by id, from behind one."""
        return await self.backend.read(lambda tx: catalogue.topic_page(tx, after, limit))

    async def topics_by_name(self, after: str, limit: int) -> list[Topic]:
        """Topics by name, from behind one."""
        return await self.backend.read(lambda tx: catalogue.topics_by_name(tx, after, limit))

    async def topics_of_groups(self, group_ids: Sequence[int]) -> list[str]:
        """The names of the topics of which these are groups."""
        return await self.backend.read(lambda tx: catalogue.topics_of_groups(tx, group_ids))

    async def add_topic(self, draft: TopicDraft, now: int) -> Topic:
        """The topic, made if it is missing."""
        return await self.backend.write(lambda tx: catalogue.add_topic(tx, draft, now))

    async def change_topic(self, topic: Topic, draft: TopicDraft, now: int) -> None:
        """Sets what may be changed of a topic."""
        await self._sealing(lambda tx: catalogue.change_topic(tx, topic, draft, now))

    async def seal(self, queue_id: int, now: int, *, at_once: bool = False, widest: int = sealing.WIDEST) -> Sealed:
        """Moves the end of a queue on over what is committed; see `sealing`."""
        return await self._sealing(lambda tx: sealing.seal(tx, queue_id, now, at_once=at_once, widest=widest))

    async def overrun(self) -> list[int]:
        """Queues that are to be sealed."""
        return await self.backend.read(sealing.overrun)

    async def groups(self, topics: Sequence[Topic]) -> list[Group]:
        """All groups of these topics."""
        return await self.backend.read(lambda tx: catalogue.find_groups(tx, topics, self.ladder))

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
        return await self.backend.write(
            lambda tx: catalogue.add_group(tx, topic, name, now, self.ladder, ladder=ladder, latest=latest, since=since)
        )

    async def change_group(self, group: Group, ladder: Ladder | None, *, block: bool = False) -> None:
        """Sets a group's own ladder, and whether an exhausted message of an ordered topic blocks its key."""
        await self.backend.write(lambda tx: catalogue.change_group(tx, group, ladder, block=block))

    async def open_claims(self, clients: Sequence[str]) -> list[ClaimKey]:
        """What these clients hold."""
        names = [name.encode() for name in clients]
        rows = await self.backend.read(lambda tx: tx.fetch("claim.of_clients", names))
        return [ClaimKey(*row) for row in rows]

    async def holders(self, after: str, limit: int) -> list[str]:
        """Names of clients that hold open claims, by name from behind `after`."""
        return await self.backend.read(lambda tx: holdings.holders(tx, after, limit))

    async def held_by(self, clients: Sequence[str]) -> list[Holding]:
        """What these clients hold."""
        return await self.backend.read(lambda tx: holdings.of_clients(tx, clients))

    async def clients(self) -> dict[str, Registration]:
        """Every client whose liveness is watched."""
        return await self.backend.read(clients.all_watched)

    async def renew_clients(self, signs: Mapping[str, int], register: Collection[str] = ()) -> dict[str, Registration]:
        """Notes when clients were last heard of; those of them that are watched, with those to `register`."""
        return (await self._renew(signs, register, free=False))[0]

    async def renew_free(
        self, signs: Mapping[str, int], register: Collection[str] = ()
    ) -> tuple[dict[str, Registration], set[str]]:
        """As `renew_clients`, without waiting for a row; and the clients whose row somebody holds."""
        return await self._renew(signs, register, free=True)

    async def _renew(
        self, signs: Mapping[str, int], register: Collection[str], *, free: bool
    ) -> tuple[dict[str, Registration], set[str]]:
        return await self.backend.write(lambda tx: clients.renew(tx, signs, register, free=free))

    async def remove_clients(self, gone: Mapping[str, int | None], now: int) -> dict[str, Left]:
        """Takes away what dead or deregistered clients had; see `clients`."""
        return await self.backend.write(lambda tx: clients.remove(tx, gone, now))

    async def limit_group(self, group: Group, concurrency: int | None) -> None:
        """Sets how many messages a group's clients may have in hand at once; None is no limit."""
        await self.backend.write(lambda tx: catalogue.limit_group(tx, group, concurrency))

    async def read_on(self, requests: Sequence[ReadRequest], now: int) -> list[ReadAnswer]:
        """Messages for clients of broadcast topics, each from its own offset on; an answer to each, in order."""
        answers = await self._read_on(requests, now, free=False)
        return [answer for answer in answers if answer is not None]

    async def read_on_free(self, requests: Sequence[ReadRequest], now: int) -> list[ReadAnswer | None]:
        """As `read_on`, without waiting for a row: None for a client whose offsets somebody holds."""
        return await self._read_on(requests, now, free=True)

    async def _read_on(self, requests: Sequence[ReadRequest], now: int, *, free: bool) -> list[ReadAnswer | None]:
        return await self.backend.write(lambda tx: readers.Reading(now, free).write(tx, requests))

    async def topic_states(self, topics: Sequence[Topic]) -> dict[int, TopicState]:
        """Counters by topic id."""
        return await self.backend.read(lambda tx: catalogue.topic_states(tx, topics))

    async def group_state(self, group: Group) -> GroupState:
        """A group's counters."""
        return await self.backend.read(lambda tx: catalogue.group_state(tx, group))

    async def lags(self, group_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
        """By group id: messages yet to be claimed, and retries that wait for their rung."""
        if not group_ids:
            return {}
        rows = await self.backend.read(lambda tx: tx.fetch("cursor.lags", group_ids))
        return {group_id: (int(lag), int(failed) - int(returned)) for group_id, lag, failed, returned in rows}

    async def backlogs(self) -> dict[int, int]:
        """By topic id: what its groups have yet to claim, where there is something."""
        rows = await self.backend.read(lambda tx: tx.fetch("cursor.backlogs"))
        return {topic_id: int(backlog) for topic_id, backlog in rows}

    async def queue_ends(self, queue_ids: Sequence[int]) -> dict[int, int]:
        """The end of each of these queues, by its id."""
        if not queue_ids:
            return {}
        return dict(await self.backend.read(lambda tx: tx.fetch("queue.ends", queue_ids)))

    async def find_message(self, id_: int) -> Found | None:
        """The message and its life, or None."""
        return await self.backend.read(lambda tx: tracing.find_message(tx, id_))

    async def find_labelled(self, topic: Topic, key: str, after: int, limit: int) -> FoundPage:
        """The messages of a key, by id from behind `after`."""
        return await self.backend.read(lambda tx: found_pages.find_labelled(tx, topic, key, after, limit))

    async def dead_letters(self, group: Group, after: int, limit: int) -> list[DeadLetter]:
        """A page of a group's dead letters, by id from behind `after`."""
        return await self.backend.read(lambda tx: dead_letters.page(tx, group, after, limit))

    async def find(self, topic: Topic, wanted: Wanted, place: finding.Place, limit: int) -> FoundPage:
        """Messages of a topic by state and time."""
        return await self.backend.read(lambda tx: found_pages.find(tx, topic, wanted, place, limit))

    async def upcoming(
        self, topic: Topic, begin: int, width: int, buckets: int, *, overdue: bool = True
    ) -> finding.Upcoming:
        """How many messages fall due in each stretch of `width` milliseconds; see `finding`."""
        return await self.backend.read(lambda tx: finding.upcoming(tx, topic, begin, width, buckets, overdue=overdue))

    async def find_dead(self, group: Group, search: DeadSearch, after: int, limit: int) -> DeadPage:
        """Dead letters that fit, by id from behind `after`."""
        return await self.backend.read(lambda tx: dead_letters.find(tx, group, search, after, limit))

    async def redrive(self, group: Group, letters: Letters, limit: int, now: int) -> Redriven:
        """Puts a batch of dead letters onto their group's ladder, due at once, with attempt 1."""

        async def attempt(spread: int) -> Redriven:
            return await self.backend.write(
                lambda tx: Redriving(group, now, self.ids, spread).write(tx, letters, limit)
            )

        return await self._again(attempt, now)

    async def purge(self, group: Group, letters: Letters, limit: int) -> int:
        """Removes a batch of dead letters; returns how many."""
        return await self.backend.write(lambda tx: redriving.purge(tx, group, letters, limit))

    async def count_dead(self, group: Group, letters: Letters) -> int:
        """How many dead letters these are."""
        return await self.backend.read(lambda tx: redriving.count(tx, group, letters))

    async def seek(self, group: Group, queues: Sequence[Queue], position: Position, now: int) -> Sought:
        """Closes the group's claims on these queues and moves it."""

        async def attempt(spread: int) -> Sought:
            return await self.backend.write(
                lambda tx: Seeking(group, now, self.ids, spread).write(tx, queues, position)
            )

        return await self._again(attempt, now)

    async def offsets_of(self, queues: Sequence[Queue], position: Position) -> list[tuple[int, int]]:
        """(number, offset) of a position in each of these queues."""

        async def look(tx: Transaction) -> list[tuple[int, int]]:
            return [(queue.number, await offset_of(tx, queue.id, position)) for queue in queues]

        return await self.backend.read(look)

    async def replay(self, group: Group, range_: Range, limit: int, now: int) -> Replayed:
        """Puts a batch of a range of the stream onto the group's ladder, due at once, with attempt 1."""

        async def attempt(spread: int) -> Replayed:
            return await self.backend.write(lambda tx: Replaying(group, now, self.ids, spread).write(tx, range_, limit))

        return await self._again(attempt, now)

    async def count_replay(self, range_: Range) -> int:
        """How many offsets a range has."""
        return replaying.size(await self.backend.read(lambda tx: replaying.extent(tx, range_)))

    async def pull(self, queue: Queue, offset: int, limit: int) -> list[Delivered]:
        """Messages of a topic's own queue from an offset on; no claim, no ack."""
        return await self.backend.read(lambda tx: stretches.pull(tx, queue, offset, limit))

    async def forget_requests(self, now: int, limit: int) -> int:
        """Removes a batch of idempotency keys whose window is over; returns how many."""
        return await self.backend.write(lambda tx: publishing.forget(tx, now, limit))

    async def leftovers(self, topics: Sequence[Topic], groups: Sequence[Group]) -> Leftovers:
        """What there may be to clean in these topics and these groups of theirs."""
        return await self.backend.read(lambda tx: leftovers.find_leftovers(tx, topics, groups))

    async def clean(self, batch: Work[Removed]) -> Removed:
        """One batch of cleaning, a function of `retention`; it may be run again."""
        return await self.backend.write(batch)

    async def see_groups(self, group_ids: Sequence[int], now: int) -> None:
        """Notes that somebody asked for these groups: retention waits for them."""
        await self.backend.write(lambda tx: retention.see(tx, group_ids, now))

    async def floors(self, queue_ids: Sequence[int]) -> dict[int, int]:
        """By queue id: the lowest offset that may still exist."""
        return await self.backend.read(lambda tx: retention.floors(tx, queue_ids))

    async def remove_group(self, group: Group, now: int) -> bool:
        """The group is no more; False when it was not there. See `removal`."""
        return await self.backend.write(lambda tx: removal.remove_group(tx, group.topic.id, group.id, now))

    async def remove_topic(self, topic: Topic, now: int, *, force: bool = False) -> bool:
        """The topic is no more; False when it was not there. Raises `Unsettled`, unless by `force`."""
        if not force:
            await self.backend.read(lambda tx: removal.refuse_unsettled(tx, topic))
            removal.refuse_waiting(topic, await self._count_waiting(topic))
        return await self.backend.write(lambda tx: removal.remove_topic(tx, topic, now, force=force))

    async def _count_waiting(self, topic: Topic) -> int:
        waiting = 0
        for shard in range(SHARDS_OF_DELAY):
            after: int | None = 0
            while after is not None:
                page = functools.partial(
                    removal.count_waiting, topic_id=topic.id, shard=shard, after=after, limit=_PAGE
                )
                some, after = await self.backend.read(page)
                waiting += some
        return waiting

    async def tombstones(self) -> list[Tombstone]:
        """What was removed and of which something may be left."""
        return await self.backend.read(removal.tombstones)

    async def clear(self, stone: Tombstone, place: Place, limit: int) -> Cleared:
        """One batch of what is left of it; it may be run again."""
        return await self.backend.write(lambda tx: removal.clear(tx, stone, place, limit))

    async def bury(self, stone: Tombstone) -> None:
        """Nothing is left of it."""
        await self.backend.write(lambda tx: removal.bury(tx, stone))

    async def _again(self, attempt: Callable[[int], Awaitable[T]], now: int) -> T:
        """Runs `attempt(spread)` until no key is taken: first in the very millisecond, then up to a second later."""
        for tried in range(_KEY_TRIES - 1):
            try:
                return await attempt(min(4**tried - 1, _WIDEST_SPREAD))
            except DuplicateKey:
                await self._reseat(now)
        return await attempt(_WIDEST_SPREAD)

    async def _sealing(self, work: Work[T]) -> T:
        """Once more when a writer has filled a hole just before its tombstone."""
        for _ in range(_KEY_TRIES - 1):
            try:
                return await self.backend.write(work)
            except DuplicateKey:
                continue
        return await self.backend.write(work)

    async def _reseat(self, now: int) -> None:
        """It may have been an offset that was taken: whoever draws them is told of all that are."""
        ends: dict[int, int] = {}
        for queue_id in await self.overrun():
            ends[queue_id] = await self.backend.read(functools.partial(sealing.last_end, queue_id=queue_id))
        for queue_id in await self.backend.reseat(ends):
            while (await self.seal(queue_id, now, at_once=True)).more:
                pass
