"""A broker that keeps what it is asked and answers what it is told to, in memory."""

import json
from collections.abc import Sequence
from typing import Any, Literal

import trio
from attrs import evolve

from tarry.service.errors import Stopping, UnknownGroup, UnknownTopic
from tarry.service.groups.operations import Worked
from tarry.service.groups.roster import ClientState
from tarry.service.topics import ranking
from tarry.service.topics.ranking import Ranked, Sort
from tarry.service.topics.rates import Activity, Rate
from tarry.store.catalogue import TopicDraft
from tarry.store.looking.dead_letters import DeadPage, DeadSearch
from tarry.store.looking.finding import Place, Upcoming, Wanted
from tarry.store.looking.found_pages import FoundPage
from tarry.store.operating.positions import Position
from tarry.store.operating.redriving import Letters
from tarry.store.operating.replaying import Range
from tarry.store.records import (
    Claim,
    ClaimKey,
    Conflict,
    DeadLetter,
    Delivered,
    Event,
    Found,
    Group,
    GroupState,
    Publication,
    Queue,
    QueueState,
    ReadAnswer,
    ReadRequest,
    Receipt,
    Settled,
    Topic,
    TopicState,
    Verdict,
)
from tarry.wheel.ladder import Ladder

NOW = 1_795_255_200_000
"""2026-11-21T10:00:00.000Z"""


def delivered(id_: int = 7, body: bytes = b'{"order":  7}', **changes: Any) -> Delivered:
    message = Delivered(
        id=id_,
        queue=0,
        offset=41,
        attempt=1,
        key="order-7",
        ordering_key=None,
        tag=None,
        headers=b'{"a":"b"}',
        content_type=None,
        body=body,
        published_at=NOW - 5000,
        deliver_at=NOW - 1,
        streamed_at=NOW,
    )
    return evolve(message, **changes)


def found(id_: int = 7, **changes: Any) -> Found:
    one = Found(
        id=id_,
        topic="orders",
        state="published",
        deliver_at=NOW,
        published_at=NOW,
        key="order-7",
        ordering_key=None,
        tag=None,
        headers=None,
        content_type=None,
        body=b"null",
        queue=0,
        offset=3,
        life=(Event("published", NOW), Event("failed", NOW + 1, "billing", "c1", 1, "no ink")),
    )
    return evolve(one, **changes)


def claim(*messages: Delivered) -> Claim:
    key = ClaimKey(group_id=1, queue_id=1, number=1, first=41, token=99)
    places = {message.id: place for place, message in enumerate(messages)}
    return Claim(key, "c1", NOW, NOW + 60_000, len(messages), messages, places)


class RecordingBroker:
    """Implements `tarry.service.broker.Broker`. Set `error` to have every verb raise it, `errors` for single ones."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        self.errors: dict[str, Exception] = {}
        self.known: dict[str, Topic] = {}
        self.known_groups: dict[tuple[str, str], Group] = {}
        self.publications: list[Publication] = []
        self.verdict = Verdict("cancelled")
        self.settled = Settled()
        self.granted: Claim | None = None
        self.page: list[Found] = []
        self.letters: list[DeadLetter] = []
        self.roster: list[ClientState] = []
        self.stream: list[Delivered] = []
        self.activities: dict[int, Activity] = {}
        self.read = ReadAnswer((), (0, 0))
        self.checks: list[tuple[str, str | None]] = [("store", None), ("durability", None)]
        self.worked = Worked(3, until=NOW)
        self.auto_create = True
        self.waiting = trio.Event()
        self.wait_cancelled = False
        self.ready = True

    def check_ready(self) -> None:
        if not self.ready:
            raise Stopping("the server is starting: its store has not answered yet")

    def _called(self, *call: Any) -> None:
        self.calls.append(call)
        error = self.errors.get(call[0], self.error)
        if error is not None:
            raise error

    def now(self) -> int:
        return NOW

    def add_topic(self, name: str, queues: int = 1, *, ordered: bool = False) -> Topic:
        topic = Topic(
            *(len(self.known) + 1, name, "cluster", ordered),
            tuple(Queue(100 + number, number) for number in range(queues)),
            *(None, None, NOW),
        )
        self.known[name] = topic
        return topic

    async def topic(self, name: str, *, create: bool = True) -> Topic:
        self._called("topic", name, create)
        if name not in self.known:
            if not (create and self.auto_create):
                raise UnknownTopic(f"there is no topic {name!r}")
            self.add_topic(name)
        return self.known[name]

    def choose_queue(self, topic: Topic, ordering_key: str | None) -> Queue:
        return topic.queues[0]

    def nudge(self) -> None:
        self._called("nudge")

    async def put_topic(self, draft: TopicDraft) -> tuple[Topic, bool]:
        self._called("put_topic", draft)
        made = draft.name not in self.known
        topic = self.add_topic(draft.name, draft.queues)
        self.known[draft.name] = topic = evolve(topic, retention=draft.retention, ladder=draft.ladder)
        return topic, made

    async def ranked(self, sort: Sort, place: ranking.Place, limit: int) -> Ranked:
        self._called("ranked", sort, place, limit)
        some = tuple(
            (topic, TopicState(10, 6, 1), self.activities.get(topic.id, Activity(Rate(), 0)))
            for topic in self.known.values()
        )
        return Ranked(some[:limit], ranking.Place(some[limit - 1][0].name, 7) if len(some) > limit else None)

    async def topic_state(self, topic: Topic) -> tuple[Topic, TopicState]:
        self._called("topic_state", topic.name)
        return topic, TopicState(10, 6, 1)

    async def groups(self, topic: Topic) -> list[Group]:
        self._called("groups", topic.name)
        return [group for (name, _), group in self.known_groups.items() if name == topic.name]

    async def group(
        self, topic: Topic, name: str, *, create: bool = True, latest: bool = False, since: int | None = None
    ) -> Group:
        self._called("group", topic.name, name, create, latest if since is None else since)
        if (topic.name, name) not in self.known_groups:
            if not create:
                raise UnknownGroup(f"topic {topic.name!r} has no group {name!r}")
            self.known_groups[topic.name, name] = Group(1, topic, name, Ladder(), {})
        return self.known_groups[topic.name, name]

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
        start = ["latest"] if latest else [since] if since else []
        self._called("put_group", topic.name, name, ladder, *([block] if block else ()), *start)
        made = (topic.name, name) not in self.known_groups
        group = Group(1, topic, name, ladder or Ladder(), {}, block, ladder)
        self.known_groups[topic.name, name] = group
        return group, made

    async def group_state(self, group: Group) -> GroupState:
        self._called("group_state", group.name)
        queues = (QueueState(0, 4, 9), QueueState(0, 1, 2, retry=True))
        return GroupState(queues, acked=3, dead=1, retried=2, claims=1, claimed=1, retries=(0, 2), clients=("c1",))

    async def publish(self, publication: Publication) -> list[Receipt] | Conflict:
        self._called("publish")
        for before in self.publications:
            if before.idempotency_key is not None and before.idempotency_key == publication.idempotency_key:
                if before.fingerprint != publication.fingerprint:
                    return Conflict(before.idempotency_key)
                return [evolve(receipt, replayed=True) for receipt in self._receipts(before)]
        self.publications.append(publication)
        return self._receipts(publication)

    def _receipts(self, publication: Publication) -> list[Receipt]:
        return [
            Receipt(id_, "scheduled", draft.deliver_at, draft.deliver_at)
            if draft.deliver_at is not None and draft.deliver_at > NOW
            else Receipt(id_, "published", draft.deliver_at or NOW, NOW, draft.queue.number, id_)
            for id_, draft in enumerate(publication.drafts)
        ]

    async def cancel(self, id_: int) -> Verdict:
        self._called("cancel", id_)
        return self.verdict

    async def reschedule(self, id_: int, deliver_at: int) -> Verdict:
        self._called("reschedule", id_, deliver_at)
        return evolve(self.verdict, deliver_at=deliver_at)

    async def limit_group(self, group: Group, concurrency: int | None) -> Group:
        self._called("limit_group", group.name, concurrency)
        group = evolve(group, concurrency=concurrency)
        self.known_groups[group.topic.name, group.name] = group
        return group

    async def remove_topic(self, topic: Topic, *, force: bool) -> None:
        self._called("remove_topic", topic.name, force)

    async def remove_group(self, group: Group) -> None:
        self._called("remove_group", group.topic.name, group.name)

    async def read_on(self, request: ReadRequest, wait: int) -> ReadAnswer:
        self._called("read_on", request, wait)
        return self.read

    async def claim(
        self, group: Group, client: str, size: int, wait: int, lease: int, *, tags: frozenset[str] | None = None
    ) -> Claim | None:
        self._called("claim", group.name, client, size, wait, lease, *([] if tags is None else [tags]))
        if self.granted is None and wait:
            await self._wait()
        return self.granted

    async def _wait(self) -> None:
        self.waiting.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.wait_cancelled = True
            raise

    async def renew(self, client: str) -> int:
        self._called("renew", client)
        return NOW + 15_000

    async def deregister(self, client: str) -> tuple[bool, int]:
        self._called("deregister", client)
        return True, 2

    async def clients(self, after: str, limit: int) -> list[ClientState]:
        self._called("clients", after, limit)
        return [one for one in self.roster if one.name > after][:limit]

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
        self._called("settle", claim_id, verb, ids, reason, retry_after, count, lease)
        return self.settled

    async def find_message(self, id_: int) -> Found | None:
        self._called("find_message", id_)
        return next((one for one in self.page if one.id == id_), None)

    async def find_labelled(self, topic: Topic, key: str, after: int, limit: int) -> FoundPage:
        self._called("find_labelled", topic.name, key, after, limit)
        some = tuple(one for one in self.page if one.id > after)[:limit]
        return FoundPage(some, Place(after=some[-1].id) if len(some) == limit else None)

    async def find(self, topic: Topic, wanted: Wanted, place: Place, limit: int) -> FoundPage:
        self._called("find", topic.name, wanted, place, limit)
        return FoundPage(tuple(self.page[:limit]), Place(1, 5) if len(self.page) >= limit else None)

    async def upcoming(self, topic: Topic, since: int | None, width: int, buckets: int) -> Upcoming:
        self._called("upcoming", topic.name, since, width, buckets)
        return Upcoming(NOW, tuple(range(buckets)), None if since is None else NOW + 5)

    async def find_dead(self, group: Group, search: DeadSearch, after: int, limit: int) -> DeadPage:
        self._called("find_dead", group.name, search, after, limit)
        letters = [letter for letter in self.letters if letter.message.id > after][:limit]
        return DeadPage(tuple(letters), letters[-1].message.id if len(letters) == limit else None)

    async def seek(
        self, group: Group, queues: Sequence[Queue], position: Position, *, dry_run: bool
    ) -> list[tuple[int, int]]:
        self._called("seek", group.name, tuple(queue.number for queue in queues), position, dry_run)
        return [(queue.number, position.value % 100) for queue in queues]

    async def replay(self, group: Group, range_: Range, *, dry_run: bool) -> Worked:
        numbers = tuple(queue.number for queue in range_.queues)
        self._called("replay", group.name, numbers, range_.begin, range_.end, range_.request, dry_run)
        return self.worked

    async def redrive(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        self._called("redrive", group.name, letters, rate, dry_run)
        return self.worked

    async def purge(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        self._called("purge", group.name, letters, rate, dry_run)
        return self.worked

    async def pull(self, queue: Queue, offset: int, size: int, wait: int) -> list[Delivered]:
        self._called("pull", queue.number, offset, size, wait)
        if not self.stream and wait:
            await self._wait()
        return self.stream[:size]

    def claim_id(self, claim: Claim) -> str:
        return "1-1-1-41-63"

    async def readiness(self) -> list[tuple[str, str | None]]:
        self._called("readiness")
        return self.checks


def history(*reasons: str) -> bytes:
    return json.dumps([{"at": NOW, "client": "c1", "reason": reason} for reason in reasons]).encode()
