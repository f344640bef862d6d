"""The engine: the broker's verbs over the store, the hand, the coordinators and the bells.

Every write goes through a task of the service's own (a combiner or a coordinator), never through a request's, so that
a client that goes away cuts no transaction in two.
"""

import functools
import itertools
import time
from collections.abc import Sequence
from typing import Literal

import structlog
import trio
from attrs import evolve

from ..store import catalogue
from ..store.catalogue import TopicDraft
from ..store.errors import Contention, GroupGone, Refused, StoreError, Unavailable
from ..store.groups.claim_ids import format_claim
from ..store.looking import dead_letters, finding, found_pages, tracing
from ..store.looking.dead_letters import DeadPage, DeadSearch
from ..store.looking.finding import Place, Upcoming, Wanted
from ..store.looking.found_pages import FoundPage
from ..store.operating.positions import Position
from ..store.operating.redriving import Letters
from ..store.operating.replaying import Range
from ..store.records import (
    Claim,
    ClaimRequest,
    Conflict,
    Delivered,
    Found,
    Group,
    GroupState,
    Publication,
    Queue,
    ReadAnswer,
    ReadRequest,
    Receipt,
    Settled,
    Topic,
    TopicState,
    Verdict,
)
from ..store.store import Store
from ..store.stream.placing import queue_of_key
from ..wheel.horizon import Horizon
from ..wheel.ladder import Ladder
from ..wheel.timing_wheel import TimingWheel
from .clock import Clock
from .errors import Stopping, TopicConflict, UnknownTopic
from .groups.groups import Groups
from .groups.membership import Membership
from .groups.operations import Operations, Worked
from .groups.roster import ClientState, Roster
from .hand.hand import Hand
from .hand.loader import Loader
from .hand.promotion import Promotion
from .hand.sweeps import Sweeps, adaptively, every, until_done
from .metrics import Metrics
from .settings import Settings
from .stream.bells import Bells
from .stream.growth import Growth
from .stream.intake import Intake
from .stream.nudges import Nudges
from .stream.readers import Readers
from .stream.sealer import Sealer
from .topics import ranking
from .topics.directory import Directory
from .topics.ranking import Ranked, Ranking, Sort
from .topics.rates import Rates
from .topics.remover import Remover
from .upkeep.alarm import Alarm
from .upkeep.cleaner import Cleaner
from .upkeep.clock_watch import ClockWatch
from .upkeep.measures import Measures

_BEHIND = 1000
"""Milliseconds by which the hand may be late while what is past its time is cleared up."""
_OUTBOX_ROWS = 1000
"""Cancels of users' own transactions that are counted together."""

log = structlog.get_logger()


class Engine:
    """One node's service over one store. `run` does the work; everything else may be asked once `ready` is set."""

    def __init__(self, store: Store, settings: Settings, metrics: Metrics, nudges: Nudges | None = None) -> None:
        self._store = store
        self._settings = settings
        self._metrics = metrics
        self.clock = Clock(store.backend.now)
        self.directory = Directory(store, self.clock, auto_create=settings.auto_create)
        self.bells = Bells()
        self.alarm = Alarm(settings.alarm_url)
        self._clock_watch = ClockWatch(self.clock, self.alarm, store.backend.skew)
        self.rates = Rates(time.monotonic)
        self._ranking = Ranking(store, self.directory, self.rates)
        self.cleaner = Cleaner(store, self.directory, self.clock, metrics, settings, busy=self._is_behind)
        self._groups = Groups(
            *(store, self.directory, self.clock, metrics, self.rates, self.alarm, settings.client_timeout),
            add=self._add,
            see=self.cleaner.see,
        )
        self._operations = Operations(store, self.clock, self._add, self._groups.closed)
        self._turn = itertools.count()
        self._sealer = Sealer(store, self.clock, self.directory, widest=settings.widest_hole)
        self._nudges = nudges
        self._growth = Growth(self.directory, self.bells, self._groups, self._sealer, nudges)
        self._intake = Intake(
            *(store, self.directory, self.clock, metrics, self.rates, self._growth, settings.max_waiting),
            add=self._add,
            forget=self._forget,
        )
        self._promotion = Promotion(store, self.directory, self.clock, metrics, self._growth, self._intake)
        self._readers = Readers(store, self.directory, self.clock, self.bells, self._groups.handed_out)
        self.membership = Membership(store, self.clock, self._groups.dismiss, settings.client_timeout)
        self._roster = Roster(store, self.directory, self.membership, self._groups.present)
        self.hand: Hand | None = None
        self.loader: Loader | None = None
        self.ready = trio.Event()
        self._nudged = trio.Event()
        self._counting = trio.Lock()
        self._stopping = False
        self._durability: list[str] = []
        self.remover = Remover(store, self.directory, self.clock, self._is_behind)
        self.directory.topic_gone = self._topic_gone
        self.directory.group_gone = self._group_gone

    async def run(self) -> None:
        """Opens the schema, recovers and serves, until cancelled. Raises `SchemaError` when the schema is not ours."""
        await until_done(self._open, (Unavailable, Contention))
        now = self.clock.now()
        wheel, horizon = TimingWheel(now), Horizon(now, self._settings.horizon, self._settings.horizon_step)
        promotion = self._promotion
        self.hand = hand = Hand(wheel, horizon, self.clock, promotion.promote, promotion.streamed, aside=promotion.held)
        self.loader = Loader(self._store, hand, self.clock)
        sweeps = Sweeps(
            *(self._store, hand, self.clock),
            lost=self._groups.watch,
            grown=self._growth.seen,
            awaited=lambda: self.bells.awaited | self._groups.awaited,
        )
        self._metrics.watch(self)
        async with trio.open_nursery() as nursery:
            self._groups.open(nursery)
            self._intake.open(nursery)
            nursery.start_soon(self.membership.run)
            nursery.start_soon(self._readers.run)
            nursery.start_soon(self.alarm.run)
            nursery.start_soon(hand.run)
            nursery.start_soon(promotion.held.run)
            nursery.start_soon(self.loader.run)
            nursery.start_soon(every, 2, self._clock_watch.take)
            nursery.start_soon(every, 10, self.directory.refresh)
            nursery.start_soon(adaptively, 1, 5, sweeps.look)
            self.ready.set()
            await until_done(sweeps.watch_all, (StoreError,))
            nursery.start_soon(every, self.membership.round, self._look_after_clients)
            nursery.start_soon(every, 10, sweeps.leases)
            nursery.start_soon(every, 60, sweeps.requests)
            nursery.start_soon(self._sealer.run, self._growth.ours)
            nursery.start_soon(every, 1, self._sealer.look)
            nursery.start_soon(every, 60, self._sealer.look_everywhere)
            if self._nudges is not None:
                nursery.start_soon(self._nudges.run, self._growth.seen)
            nursery.start_soon(every, 10, self._count_outbox)
            nursery.start_soon(every, 10, Measures(self._store, self.directory, self._metrics).take)
            await self.loader.recovered.wait()
            nursery.start_soon(every, 1, sweeps.near)
            nursery.start_soon(every, 60, sweeps.far)
            nursery.start_soon(every, 60, self.cleaner.clean)
            nursery.start_soon(self.remover.run)
            nursery.start_soon(every, 0.02, functools.partial(self._sweep_when_nudged, sweeps))

    async def _open(self) -> None:
        """Brings the schema to this program's version, and reads what nothing can be answered without."""
        applied = await self._store.backend.migrate()
        if applied:
            log.info("schema_migrated", migrations=applied)
        await self.clock.take()
        await self.directory.refresh()
        await self.membership.look()
        self._durability = await self._store.backend.durability()
        for warning in self._durability:
            log.warning("durability", problem=warning)

    def nudge(self) -> None:
        """Somebody has committed messages of their own transaction: they are looked for at once."""
        self._nudged.set()

    async def _sweep_when_nudged(self, sweeps: Sweeps) -> None:
        await self._nudged.wait()
        self._nudged = trio.Event()
        await sweeps.nudged()

    async def _count_outbox(self) -> None:
        """Counts what users have cancelled in their own transactions."""
        while cancelled := await self._store.count_outbox(_OUTBOX_ROWS):
            for topic_id, (messages, first_heard) in cancelled.items():
                self._intake.accepted(topic_id, first_heard)
                self._metrics.cancelled(self.directory.name_of(topic_id), messages)
            await trio.sleep(0.05)  # others come first

    def stop(self) -> None:
        """No more claims, and long polls go home; everything else goes on until it is answered."""
        self._stopping = True
        self._groups.stop()
        self._intake.hurry()
        self.membership.hurry()
        self.cleaner.stop()
        self._readers.stop()

    async def drain(self) -> None:
        """Waits until nothing is left to be written."""
        while not (self._groups.idle and self._intake.idle and self._readers.idle):
            await trio.sleep(0.01)

    def now(self) -> int:
        return self.clock.now()

    def check_ready(self) -> None:
        if not self.ready.is_set():
            raise Stopping("the server is starting: its store has not answered yet")

    # Topics and groups

    async def topic(self, name: str, *, create: bool = True) -> Topic:
        return await self.directory.topic(name, create=create)

    def choose_queue(self, topic: Topic, ordering_key: str | None) -> Queue:
        if ordering_key is not None:
            return queue_of_key(topic, ordering_key)
        return topic.queues[next(self._turn) % len(topic.queues)]

    async def put_topic(self, draft: TopicDraft) -> tuple[Topic, bool]:
        if draft.sequencer == "redis":
            try:
                self._store.backend.sequence([], by_redis=True)  # before anything is done
            except Refused as error:
                raise TopicConflict(str(error)) from error
        try:
            known = await self.directory.topic(draft.name, create=False)
        except UnknownTopic:
            known = None
        if known is not None and draft.kind != known.kind:
            raise TopicConflict(f"topic {draft.name!r} is of kind {known.kind!r}, and the kind of a topic stays")
        if known is not None and draft.queues < len(known.queues):
            raise TopicConflict(f"topic {draft.name!r} has {len(known.queues)} queues, and queues are never taken away")
        if known is not None and draft.ordered != known.ordered:
            raise TopicConflict(f"topic {draft.name!r} is {'' if known.ordered else 'not '}ordered, and stays so")
        if known is not None and known.ordered and draft.queues != len(known.queues):
            raise TopicConflict(f"topic {draft.name!r} is ordered and has {len(known.queues)} queues for good")
        topic = await self.directory.make_topic(draft)
        if known is not None:
            topic = await self.directory.change_topic(topic, draft)
        return topic, known is None

    async def ranked(self, sort: Sort, place: ranking.Place, limit: int) -> Ranked:
        return await self._ranking.page(sort, place, limit)

    async def topic_state(self, topic: Topic) -> tuple[Topic, TopicState]:
        found = await self.directory.read_topic(topic.name)
        if found is None:
            raise UnknownTopic(f"there is no topic {topic.name!r}")
        return found, (await self._store.read(catalogue.topic_states, [found]))[found.id]

    async def groups(self, topic: Topic) -> list[Group]:
        return self.directory.groups_of(topic)

    async def group(
        self, topic: Topic, name: str, *, create: bool = True, latest: bool = False, since: int | None = None
    ) -> Group:
        return await self.directory.group(topic, name, create=create, latest=latest, since=since)

    async def put_group(
        self,
        topic: Topic,
        name: str,
        ladder: Ladder | None,
        *,
        block: bool = False,
        latest: bool = False,
        since: int | None = None,
    ) -> tuple[Group, bool]:
        known = name in {group.name for group in self.directory.groups_of(topic)}
        group = await self.directory.group(
            topic, name, create=True, asked_for=True, ladder=ladder, latest=latest, since=since
        )
        if known or block:
            group = await self.directory.change_group(group, ladder, block=block)
        return group, not known

    async def limit_group(self, group: Group, concurrency: int | None) -> Group:
        group = await self.directory.limit_group(group, concurrency)
        self._groups.free(group)
        return group

    async def remove_topic(self, topic: Topic, *, force: bool) -> None:
        await self.remover.remove_topic(topic, force=force)

    async def remove_group(self, group: Group) -> None:
        await self.remover.remove_group(group)

    def _topic_gone(self, topic: Topic) -> None:
        """Whoever reads its queues goes home, and nothing is told of it any more."""
        for queue in topic.queues:
            self.bells.ring(queue.id)
        self._metrics.forget(topic.name)

    def _group_gone(self, group: Group) -> None:
        self._groups.retire(group)
        self.cleaner.forget(group)
        self._store.forget_group(group)
        if group.topic.kind == "broadcast":
            for queue in group.topic.queues:
                self.bells.ring(queue.id)
        self._metrics.forget(group.topic.name, group.name)

    async def group_state(self, group: Group) -> GroupState:
        state = await self._store.read(catalogue.group_state, group)
        clients = {*state.clients, *state.owners.values(), *self._groups.present(group)}
        return evolve(state, clients=tuple(sorted(clients)))

    # Publish, cancel, reschedule

    async def publish(self, publication: Publication) -> list[Receipt] | Conflict:
        return await self._intake.publish(publication)

    async def cancel(self, id_: int) -> Verdict:
        return await self._intake.cancel(id_)

    async def reschedule(self, id_: int, deliver_at: int) -> Verdict:
        return await self._intake.reschedule(id_, deliver_at)

    # Claims

    async def claim(
        self, group: Group, client: str, size: int, wait: int, lease: int, *, tags: frozenset[str] | None = None
    ) -> Claim | None:
        async with self.membership.polling(client):
            try:
                return await self._groups.claim(group, ClaimRequest(client, size, lease, tags), wait)
            except GroupGone:
                self.directory.forget_group(group)
                return None

    async def renew(self, client: str) -> int:
        return await self.membership.renew(client)

    async def deregister(self, client: str) -> tuple[bool, int]:
        return await self.membership.deregister(client)

    async def clients(self, after: str, limit: int) -> list[ClientState]:
        return await self._roster.page(after, limit)

    async def _look_after_clients(self) -> None:
        self._groups.look_around()
        await self.membership.look_after()

    async def read_on(self, request: ReadRequest, wait: int) -> ReadAnswer:
        async with self.membership.polling(request.client):
            return await self._readers.read_on(request, wait)

    async def pull(self, queue: Queue, offset: int, size: int, wait: int) -> list[Delivered]:
        return await self._readers.pull(queue, offset, size, wait)

    async def settle(
        self,
        claim_id: str,
        verb: Literal["ack", "fail", "extend"],
        *,
        ids: Sequence[int] | None = None,
        reason: str | None = None,
        retry_after: int | None = None,
        count: bool = True,
        lease: int = 0,
    ) -> Settled:
        return await self._groups.settle(
            claim_id, verb, ids=ids, reason=reason, retry_after=retry_after, count=count, lease=lease
        )

    # What operators do

    async def seek(
        self, group: Group, queues: Sequence[Queue], position: Position, *, dry_run: bool
    ) -> list[tuple[int, int]]:
        _unless_broadcast(group)
        return await self._operations.seek(group, queues, position, dry_run=dry_run)

    async def replay(self, group: Group, range_: Range, *, dry_run: bool) -> Worked:
        _unless_broadcast(group)
        return await self._operations.replay(group, range_, dry_run=dry_run)

    async def redrive(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        return await self._operations.redrive(group, letters, rate, dry_run=dry_run)

    async def purge(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        return await self._operations.purge(group, letters, rate, dry_run=dry_run)

    # Looking

    async def find_message(self, id_: int) -> Found | None:
        return await self._store.read(tracing.find_message, id_)

    async def find_labelled(self, topic: Topic, key: str, after: int, limit: int) -> FoundPage:
        return await self._store.read(found_pages.find_labelled, topic, key, after, limit)

    async def find(self, topic: Topic, wanted: Wanted, place: Place, limit: int) -> FoundPage:
        return await self._store.read(found_pages.find, topic, wanted, place, limit)

    async def upcoming(self, topic: Topic, since: int | None, width: int, buckets: int) -> Upcoming:
        begin = self.clock.now() if since is None else since
        async with self._counting:  # one after another: the readers are for others, too
            return await self._store.read(finding.upcoming, topic, begin, width, buckets, overdue=since is None)

    async def find_dead(self, group: Group, search: DeadSearch, after: int, limit: int) -> DeadPage:
        return await self._store.read(dead_letters.find, group, search, after, limit)

    def claim_id(self, claim: Claim) -> str:
        return format_claim(*(one.key for one in claim.ranges))

    async def readiness(self) -> list[tuple[str, str | None]]:
        if not self.ready.is_set():
            return [("store", "the store has not answered yet")]
        checks: list[tuple[str, str | None]] = []
        try:
            await self._store.backend.now()
            checks.append(("store", None))
        except StoreError as error:
            checks.append(("store", str(error)))
        checks.append(("clock", "the database's clock has jumped; promotion waits" if self.clock.held else None))
        checks.append(("host_clock", self._clock_watch.wrong))
        behind = self.hand.behind if self.hand else 0
        checks.append(("hand", f"the hand is {behind} ms behind" if behind > 60_000 else None))
        checks += [("sealing", str(one)) for one in self._sealer.standing.values()]
        checks.append(("stopping", "the server is shutting down" if self._stopping else None))
        checks += [("durability", problem) for problem in self._durability]
        return checks

    @property
    def standing_queues(self) -> int:
        """How many queues have a hole that is too wide to be closed."""
        return len(self._sealer.standing)

    # What the tasks tell each other

    def _add(self, due: int, entry: int) -> None:
        if self.hand is not None:
            self.hand.add(due, entry)

    def _forget(self, due: int, entry: int) -> None:
        if self.hand is not None:
            self.hand.cancel(due, entry)

    def _is_behind(self) -> bool:
        """What is due comes first."""
        return self.hand is None or self.hand.behind > _BEHIND


def _unless_broadcast(group: Group) -> None:
    if group.topic.kind == "broadcast":
        raise TopicConflict(f"topic {group.topic.name!r} is a broadcast topic: its clients have offsets of their own")
