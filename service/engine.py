"""The engine: the broker's verbs over the store, the hand, the desks and the bells.

Every write goes through a task of the service's own (a combiner or a desk), never through a request's, so that a client
that goes away cuts no transaction in two.
"""

import functools
import itertools
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

import structlog
import trio
from attrs import evolve

from ..store.catalogue import TopicDraft
from ..store.dead_letters import DeadPage, DeadSearch
from ..store.errors import OutcomeUnknown, Refused, StoreError, Unavailable
from ..store.finding import Place, Wanted
from ..store.positions import Position
from ..store.records import (
    Claim,
    ClaimKey,
    ClaimRequest,
    Conflict,
    Delivered,
    Found,
    Group,
    GroupState,
    Promoted,
    Publication,
    Queue,
    Receipt,
    Settled,
    Settlement,
    Topic,
    TopicState,
    Turn,
    Verdict,
)
from ..store.redriving import Letters
from ..store.replaying import Range
from ..store.store import Store
from ..wheel.horizon import Horizon
from ..wheel.ladder import Ladder
from ..wheel.timing_wheel import TimingWheel
from .bells import Bells
from .claim_ids import format_claim, parse_claim
from .cleaner import Cleaner
from .clock import Clock
from .combiner import Combiner
from .desk import Desk
from .directory import Directory
from .errors import Busy, NotBuilt, Stopping, TopicConflict, UnknownClaim, UnknownTopic
from .hand import Hand
from .liveness import Liveness
from .loader import Loader
from .measures import Measures
from .metrics import Metrics
from .nudges import Nudges
from .operations import Operations, Worked
from .sealer import Sealer
from .settings import Settings
from .sweeps import Sweeps, every

_BATCH_BYTES = 2 << 20
_LOCKED_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.35)
"""Seconds between looks at a message that somebody else's transaction holds: about one in all."""
_BEHIND = 1000
"""Milliseconds by which the hand may be late while what is past its time is cleared up."""
_OUTBOX_ROWS = 1000
"""Cancels of users' own transactions that are counted together."""
_START_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)

_ROUNDS = 5
"""Seconds from one writing of the renewals to the next."""
_LOOKS = 3

T = TypeVar("T")

log = structlog.get_logger()


class Engine:
    """One node's service over one store. `run` does the work; everything else may be asked once `ready` is set."""

    def __init__(self, store: Store, settings: Settings, metrics: Metrics) -> None:
        self._store = store
        self._settings = settings
        self._metrics = metrics
        self.clock = Clock(store.backend.now)
        self.directory = Directory(store, self.clock, auto_create=settings.auto_create)
        self.bells = Bells()
        self._operations = Operations(store, self.clock, self._add, self._closed)
        self._desks: dict[int, Desk] = {}
        self._turn = itertools.count()
        self._rounds = itertools.count(1)
        self._publishing: Combiner[Publication, list[Receipt] | Conflict] = Combiner(
            self._publish,
            weigh=lambda publication: publication.weight,
            batch=_BATCH_BYTES,
            waiting=settings.max_waiting,
        )
        self._cancelling: Combiner[int, Verdict] = Combiner(self._cancel)
        self._rescheduling: Combiner[tuple[int, int], Verdict] = Combiner(self._reschedule)
        self._sealer = Sealer(store, self.clock, self._grown_here)
        self.nudges: Nudges | None = None
        """How other nodes hear of what is done here; None without a Redis."""
        self.liveness = Liveness(store, self.clock, self._clients_gone)
        self.hand: Hand | None = None
        self.loader: Loader | None = None
        self.ready = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._nudged = trio.Event()
        self._stopping = False
        self._durability: list[str] = []
        self.cleaner = Cleaner(store, self.directory, self.clock, metrics, settings, busy=self._is_behind)

    async def run(self) -> None:
        """Opens the schema, recovers and serves, until cancelled. Raises `SchemaError` when the schema is not ours."""
        await self._open()
        now = self.clock.now()
        wheel, horizon = TimingWheel(now), Horizon(now, self._settings.horizon, self._settings.horizon_step)
        self.hand = hand = Hand(wheel, horizon, self.clock, self._promote, self._streamed)
        self.loader = Loader(self._store, hand, self.clock)
        sweeps = Sweeps(
            *(self._store, hand, self.clock),
            lost=self._watch,
            grown=self._grown,
            waiting=lambda: any(desk.waiting for desk in self._desks.values()),
        )
        self._metrics.watch(self)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            # Two: while the database writes one batch, the callers of the other are answered and their next are taken.
            for combiner in (self._publishing, self._publishing, self._cancelling, self._rescheduling):
                nursery.start_soon(combiner.run)
            for leaving in (self.liveness.registering, self.liveness.leaving):
                nursery.start_soon(leaving.run)
            nursery.start_soon(hand.run)
            nursery.start_soon(self.loader.run)
            nursery.start_soon(every, 1, self.clock.take)
            nursery.start_soon(every, 10, self.directory.refresh)
            nursery.start_soon(every, 1, sweeps.look)
            self.ready.set()
            await sweeps.watch_all()
            nursery.start_soon(every, 1, self._look_after_clients)
            nursery.start_soon(every, 10, sweeps.leases)
            nursery.start_soon(every, 60, sweeps.requests)
            nursery.start_soon(self._sealer.run)
            nursery.start_soon(every, 1, self._sealer.look)
            nursery.start_soon(every, 60, self._sealer.look_everywhere)
            if self.nudges is not None:
                nursery.start_soon(self.nudges.run)
            nursery.start_soon(every, 10, self._count_outbox)
            nursery.start_soon(every, 10, Measures(self._store, self.directory, self._metrics).take)
            await self.loader.recovered.wait()
            nursery.start_soon(every, 1, sweeps.near)
            nursery.start_soon(every, 60, sweeps.far)
            nursery.start_soon(every, 60, self.cleaner.clean)
            nursery.start_soon(every, 0.02, functools.partial(self._sweep_when_nudged, sweeps))

    async def _open(self) -> None:
        """Waits for the store, however long it is away."""
        pauses = itertools.chain(_START_PAUSES, itertools.repeat(_START_PAUSES[-1]))
        while True:
            try:
                applied = await self._store.backend.migrate()
                await self.clock.take()
                await self.directory.refresh()
                await self.liveness.load()
                self._durability = await self._store.backend.durability()
                break
            except Unavailable as error:
                pause = next(pauses)
                log.warning("store_unavailable", error=str(error), again_in=pause)
                await trio.sleep(pause)
        if applied:
            log.info("schema_migrated", migrations=applied)
        for warning in self._durability:
            log.warning("durability", problem=warning)

    def nudge(self) -> None:
        """Somebody has committed messages of their own transaction: they are looked for at once."""
        self._ready()
        self._nudged.set()

    async def _sweep_when_nudged(self, sweeps: Sweeps) -> None:
        await self._nudged.wait()
        self._nudged = trio.Event()
        await sweeps.nudged()

    async def _count_outbox(self) -> None:
        """Counts what users have cancelled in their own transactions."""
        while cancelled := await self._store.count_outbox(_OUTBOX_ROWS):
            for topic_id, messages in cancelled.items():
                self._metrics.cancelled(self._topic_name(topic_id), messages)
            await trio.sleep(0.05)  # others come first

    def stop(self) -> None:
        """No more claims, and long polls go home; everything else goes on until it is answered."""
        self._stopping = True
        for desk in self._desks.values():
            desk.stop()
        self.cleaner.stop()
        self.bells.ring_all()

    async def drain(self) -> None:
        """Waits until nothing is left to be written."""
        combiners = (self._publishing, self._cancelling, self._rescheduling)
        while not all(combiner.idle for combiner in combiners) or not all(d.idle for d in self._desks.values()):
            await trio.sleep(0.01)

    def now(self) -> int:
        self._ready()
        return self.clock.now()

    def _ready(self) -> None:
        if not self.ready.is_set():
            raise Stopping("the server is starting: its store has not answered yet")

    # Topics and groups

    async def topic(self, name: str, *, create: bool = True) -> Topic:
        self._ready()
        return await self.directory.topic(name, create=create)

    def choose_queue(self, topic: Topic, ordering_key: str | None) -> Queue:
        if ordering_key is not None:
            return topic.queues[zlib.crc32(ordering_key.encode()) % len(topic.queues)]
        return topic.queues[next(self._turn) % len(topic.queues)]

    async def put_topic(self, draft: TopicDraft) -> tuple[Topic, bool]:
        self._ready()
        if draft.kind != "cluster":
            raise NotBuilt(f"topics of kind {draft.kind!r} are not built yet: leave kind out, or say cluster")
        if draft.sequencer == "redis":
            try:
                self._store.backend.sequence([], by_redis=True)  # before anything is done
            except Refused as error:
                raise TopicConflict(str(error)) from error
        try:
            known = await self.directory.topic(draft.name, create=False)
        except UnknownTopic:
            known = None
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

    async def topics(self) -> list[tuple[Topic, TopicState]]:
        self._ready()
        await self.directory.refresh()
        topics = self.directory.topics
        states = await self._store.topic_states(topics)
        return [(topic, states[topic.id]) for topic in topics]

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

    async def group_state(self, group: Group) -> GroupState:
        state = await self._store.group_state(group)
        desk = self._desks.get(group.id)
        clients = {*state.clients, *state.owners.values(), *(desk.present() if desk is not None else ())}
        return evolve(state, clients=tuple(sorted(clients)))

    # Publish, cancel, reschedule

    async def publish(self, publication: Publication) -> list[Receipt] | Conflict:
        self._ready()
        return await self._publishing.ask(publication)

    async def _publish(self, publications: Sequence[Publication]) -> list[list[Receipt] | Conflict]:
        answers = await self._told(self._store.publish(publications, self.clock.now()))
        grown: set[int] = set()
        accepted: Counter[str] = Counter()
        for publication, answer in zip(publications, answers, strict=True):
            if isinstance(answer, Conflict) or answer[0].replayed:
                continue
            for draft, receipt in zip(publication.drafts, answer, strict=True):
                accepted[draft.topic.name] += 1
                if receipt.state == "scheduled":
                    self._add(receipt.due, receipt.id)
                else:
                    grown.add(draft.queue.id)
        for queue_id in grown:
            self._committed(queue_id)
        for topic, messages in accepted.items():
            self._metrics.published(topic, messages)
        return answers

    async def cancel(self, id_: int) -> Verdict:
        self._ready()
        return await self._decided(lambda: self._cancelling.ask(id_))

    async def _cancel(self, ids: Sequence[int]) -> list[Verdict]:
        verdicts = await self._told(self._store.cancel(ids, self.clock.now()))
        for id_, verdict in zip(ids, verdicts, strict=True):
            if verdict.due_before is not None:
                self._forget(verdict.due_before, id_)
                self._metrics.cancelled(self._topic_name(verdict.topic), 1)
        return verdicts

    async def reschedule(self, id_: int, deliver_at: int) -> Verdict:
        self._ready()
        return await self._decided(lambda: self._rescheduling.ask((id_, deliver_at)))

    async def _reschedule(self, moves: Sequence[tuple[int, int]]) -> list[Verdict]:
        verdicts = await self._told(self._store.reschedule(moves, self.clock.now()))
        for (id_, _), verdict in zip(moves, verdicts, strict=True):
            if verdict.due_before is not None and verdict.due is not None:
                self._forget(verdict.due_before, id_)
                self._add(verdict.due, id_)
        return verdicts

    async def _decided(self, ask: Callable[[], Awaitable[Verdict]]) -> Verdict:
        """Asks again while a transaction holds the message: promotion for a moment, a user's own for longer."""
        for pause in _LOCKED_PAUSES:
            verdict = await ask()
            if verdict.result != "locked":
                return verdict
            await trio.sleep(pause)
        raise Busy("a transaction holds this message at the moment; try again in a second")

    # Claims

    async def claim(self, group: Group, client: str, size: int, wait: int, lease: int) -> Claim | None:
        self._ready()
        self.cleaner.see(group.id)
        with self.liveness.polling(client):
            return await self._desk(group).claim(ClaimRequest(client, size, lease), wait)

    async def renew(self, client: str) -> int:
        self._ready()
        return await self.liveness.renew(client)

    async def deregister(self, client: str) -> tuple[bool, int]:
        self._ready()
        return await self.liveness.deregister(client)

    async def _look_after_clients(self) -> None:
        for desk in self._desks.values():
            desk.look_around()
        await self.liveness.bury()
        if next(self._rounds) % _ROUNDS == 0:
            await self.liveness.write()

    async def _clients_gone(self, clients: Sequence[str]) -> int:
        """Ends at once what these clients hold; returns how many claims that were."""
        ended: set[ClaimKey] = set()
        for client in clients:
            for desk in self._desks.values():
                desk.dismiss(client)
        for _ in range(_LOOKS):
            # A turn that was under way may have granted them one more: it is seen at the next look.
            keys = [key for key in await self._store.open_claims(clients) if key not in ended]
            if not keys:
                break
            async with trio.open_nursery() as nursery:
                for key in keys:
                    nursery.start_soon(self._end_at_once, key)
            ended.update(keys)
        return len(ended)

    async def _end_at_once(self, key: ClaimKey) -> None:
        group = await self._group_of_claim(key)
        if group is not None:
            await self._desk(group).settle(Settlement(key, "end", at_once=True))

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
        self._ready()
        key = parse_claim(claim_id)
        group = None if key is None else await self._group_of_claim(key)
        if key is None or group is None:
            raise UnknownClaim(f"there is no claim {claim_id!r}")
        self.cleaner.see(group.id)
        desk = self._desk(group)
        places: tuple[int, ...] | None = None
        if ids is not None:
            known = desk.places(key) or await self._store.find_places(key)
            if known is None:
                raise UnknownClaim(f"there is no claim {claim_id!r}")
            if not all(id_ in known for id_ in ids):
                self._metrics.fenced_write()
                return Settled(lost=True)
            places = tuple(dict.fromkeys(known[id_] for id_ in ids))
        settlement = Settlement(key, verb, places, reason, retry_after, count, lease)
        settled = await desk.settle(settlement)
        for pause in _LOCKED_PAUSES:
            if settled is None or not settled.locked:
                break
            await trio.sleep(pause)
            settled = await desk.settle(settlement)
        if settled is not None and settled.locked:
            raise Busy("a transaction holds this claim at the moment; try again in a second")
        if settled is None:
            raise UnknownClaim(f"there is no claim {claim_id!r}")
        if settled.lost:
            self._metrics.fenced_write()
        return settled

    async def _group_of_claim(self, key: ClaimKey) -> Group | None:
        group = self.directory.group_by_id(key.group_id)
        if group is None:
            await self.directory.refresh()
            group = self.directory.group_by_id(key.group_id)
        return group if group is not None and key.queue_id in group.queue_ids else None

    def _desk(self, group: Group) -> Desk:
        desk = self._desks.get(group.id)
        if desk is None:
            if self._nursery is None:
                raise Stopping("the server is starting: its store has not answered yet")
            find = functools.partial(self._present, group)
            desk = self._desks[group.id] = Desk(find, self.clock, self._take_turn, self._turn_done)
            if self._stopping:
                desk.stop()
            self._nursery.start_soon(desk.run)
        return desk

    def _present(self, group: Group) -> Group:
        """The group as it is now: its topic may have gained queues, its ladder may be another."""
        return self.directory.group_by_id(group.id) or group

    async def _take_turn(
        self, group: Group, settlements: Sequence[Settlement], requests: Sequence[ClaimRequest]
    ) -> Turn:
        present = self._desk(group).present() if group.topic.ordered else ()
        return await self._told(self._store.turn(group, settlements, requests, self.clock.now(), present))

    def _turn_done(self, group: Group, settlements: Sequence[Settlement], turn: Turn) -> None:
        topic = group.topic.name
        for settlement, settled in zip(settlements, turn.settled, strict=True):
            if settled is None:
                continue
            for due, entry in settled.timers:
                self._add(due, entry)
            self._metrics.acked(topic, group.name, settled.acked)
            self._metrics.retried(topic, group.name, settled.retried)
            self._metrics.dead(topic, group.name, settled.dead)
            if settlement.verb == "end" and settled.lost:
                self._metrics.lease_lost(1)
                log.warning("consume_timeout", topic=topic, group=group.name, claim=format_claim(settlement.key))
        for claim in turn.claims:
            if claim is not None:
                self._metrics.delivered(topic, group.name, len(claim.messages))
                for message in claim.messages:
                    if message.attempt == 1:
                        # What was asked for in the past was due when it was accepted.
                        due = max(message.deliver_at, message.published_at)
                        self._metrics.lateness(topic, (claim.claimed_at - due) / 1000)

    async def _watch(self, key: ClaimKey, lease_until: int) -> None:
        group = await self._group_of_claim(key)
        if group is not None:
            self._desk(group).watch(key, lease_until)

    # What operators do

    async def seek(
        self, group: Group, queues: Sequence[Queue], position: Position, *, dry_run: bool
    ) -> list[tuple[int, int]]:
        self._ready()
        return await self._told(self._operations.seek(group, queues, position, dry_run=dry_run))

    async def replay(self, group: Group, range_: Range, *, dry_run: bool) -> Worked:
        self._ready()
        return await self._told(self._operations.replay(group, range_, dry_run=dry_run))

    async def redrive(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        self._ready()
        return await self._told(self._operations.redrive(group, letters, rate, dry_run=dry_run))

    async def purge(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        self._ready()
        return await self._told(self._operations.purge(group, letters, rate, dry_run=dry_run))

    def _closed(self, group: Group, keys: Sequence[ClaimKey]) -> None:
        """A seek has moved the group: these claims are over, and there may be messages."""
        desk = self._desk(group)
        desk.forget(keys)
        desk.nudge()

    # Looking

    async def find_message(self, id_: int) -> Found | None:
        self._ready()
        return await self._store.find_message(id_)

    async def find_labelled(self, topic: Topic, key: str, after: int, limit: int) -> list[Found]:
        ids = await self._store.find_labelled(topic, key, after, limit)
        found = [await self._store.find_message(id_) for id_ in ids]
        return [one for one in found if one is not None]

    async def find(self, topic: Topic, wanted: Wanted, place: Place, limit: int) -> tuple[list[Found], Place | None]:
        page = await self._store.find(topic, wanted, place, limit)
        found = [await self._store.find_message(id_) for id_ in page.ids]
        # One that has moved on meanwhile is not of this state any more.
        return [one for one in found if one is not None and one.state == wanted.state], page.after

    async def upcoming(self, topic: Topic, width: int, buckets: int) -> tuple[int, list[int]]:
        self._ready()
        now = self.clock.now()
        return now, await self._store.upcoming(topic, now, width, buckets)

    async def find_dead(self, group: Group, search: DeadSearch, after: int, limit: int) -> DeadPage:
        return await self._store.find_dead(group, search, after, limit)

    async def pull(self, queue: Queue, offset: int, size: int, wait: int) -> list[Delivered]:
        self._ready()
        messages = await self._store.pull(queue, offset, size)
        with trio.move_on_after(wait / 1000):
            while not messages and wait and not self._stopping:
                await self.bells.wait(queue.id)
                messages = await self._store.pull(queue, offset, size)
        return messages

    def claim_id(self, claim: Claim) -> str:
        return format_claim(claim.key)

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
        behind = self.hand.behind if self.hand else 0
        checks.append(("hand", f"the hand is {behind} ms behind" if behind > 60_000 else None))
        checks.append(("stopping", "the server is shutting down" if self._stopping else None))
        checks += [("durability", problem) for problem in self._durability]
        return checks

    # What the tasks tell each other

    def hear(self, queue_id: int) -> None:
        """Another node has made a queue grow."""
        self._grown(queue_id)

    async def _promote(self, entries: Sequence[int], now: int) -> Sequence[Promoted]:
        began = trio.current_time()
        promoted = await self._told(self._store.promote(entries, now))
        self._metrics.promote_batch(trio.current_time() - began)
        return promoted

    def _streamed(self, promoted: Sequence[Promoted]) -> None:
        for queue_id in {one.queue_id for one in promoted}:
            self._committed(queue_id)

    def _committed(self, queue_id: int) -> None:
        """Messages of ours are in the queue; readers may pass them once the queue is sealed, if it has to be."""
        topic = self.directory.topic_of_queue(queue_id)
        if topic is not None and topic.sequencer != "store":
            self._sealer.needed = True
            self._sealer.touch(queue_id)
        else:
            self._grown_here(queue_id)

    def _grown_here(self, queue_id: int) -> None:
        """A queue has grown by our hand: other nodes are told too."""
        self._grown(queue_id)
        if self.nudges is not None:
            self.nudges.tell(queue_id)

    def _grown(self, queue_id: int) -> None:
        """A queue has grown: whoever reads it is told."""
        self.bells.ring(queue_id)
        topic, group = self.directory.topic_of_queue(queue_id), self.directory.group_of_queue(queue_id)
        groups = self.directory.groups_of(topic) if topic is not None else [group] if group is not None else []
        for one in groups:
            if (desk := self._desks.get(one.id)) is not None:
                desk.nudge()

    def _add(self, due: int, entry: int) -> None:
        if self.hand is not None:
            self.hand.add(due, entry)

    def _forget(self, due: int, entry: int) -> None:
        if self.hand is not None:
            self.hand.cancel(due, entry)

    def _is_behind(self) -> bool:
        """What is due comes first."""
        return self.hand is None or self.hand.behind > _BEHIND

    def _topic_name(self, topic_id: int | None) -> str:
        return self.directory.name_of(topic_id) if topic_id is not None else ""

    async def _told(self, answer: Awaitable[T]) -> T:
        """Counts what the store could not do."""
        try:
            return await answer
        except StoreError as error:
            self._metrics.db_error(type(error).__name__)
            if isinstance(error, OutcomeUnknown):
                log.warning("outcome_unknown", error=str(error))
            raise
