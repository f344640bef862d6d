"""What the front doors ask of the service: publish, cancel, reschedule, claim, settle, look.

A broker is put together in `serve`. Its methods take checked arguments; they raise `service.errors` and `store.errors`.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from ..store.catalogue import TopicDraft
from ..store.looking.dead_letters import DeadPage, DeadSearch
from ..store.looking.finding import Place, Upcoming, Wanted
from ..store.looking.found_pages import FoundPage
from ..store.operating.positions import Position
from ..store.operating.redriving import Letters
from ..store.operating.replaying import Range
from ..store.records import (
    Claim,
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
from ..wheel.ladder import Ladder
from .groups.operations import Worked
from .groups.roster import ClientState
from .topics import ranking
from .topics.ranking import Ranked, Sort


class Broker(Protocol):
    """The service behind its front doors. Times and durations are milliseconds."""

    def check_ready(self) -> None:
        """Raises `Stopping` until the store has answered; the other verbs may be asked from then on."""
        ...

    def now(self) -> int:
        """The service's clock: Unix milliseconds, never ahead of the database's."""
        ...

    async def topic(self, name: str, *, create: bool = True) -> Topic:
        """The topic; made at first use when `create` and the settings allow. Raises `UnknownTopic`."""
        ...

    def choose_queue(self, topic: Topic, ordering_key: str | None) -> Queue:
        """The queue of a message that names none: by hash of its ordering key, else in turn."""
        ...

    def nudge(self) -> None:
        """Looks at once for messages that others' transactions have committed."""
        ...

    async def put_topic(self, draft: TopicDraft) -> tuple[Topic, bool]:
        """Makes or changes a topic; True when it was made. Raises `TopicConflict`, `NotBuilt`."""
        ...

    async def ranked(self, sort: Sort, place: ranking.Place, limit: int) -> Ranked:
        """A page of the topics with their counters, and what each does."""
        ...

    async def topic_state(self, topic: Topic) -> tuple[Topic, TopicState]:
        """The topic as it is in the store now, with its counters. Raises `UnknownTopic`."""
        ...

    async def groups(self, topic: Topic) -> list[Group]:
        """The groups of a topic, by name."""
        ...

    async def group(
        self, topic: Topic, name: str, *, create: bool = True, latest: bool = False, since: int | None = None
    ) -> Group:
        """The group; made at first use when `create` and the settings allow. Raises `UnknownGroup`.

        One that is made begins at the earliest message, or behind the `latest`, or at the first of the time `since`.
        """
        ...

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
        """Makes a group or changes its ladder and what exhaustion does; True when it was made.

        Where it begins counts when it is made.
        """
        ...

    async def limit_group(self, group: Group, concurrency: int | None) -> Group:
        """Sets how many messages the group's clients may have in hand at once; None is no limit."""
        ...

    async def remove_topic(self, topic: Topic, *, force: bool) -> None:
        """The topic, its groups and all its messages are no more.

        Raises `UnknownTopic`, and unless by `force` `TopicConflict` while messages wait or are unsettled.
        """
        ...

    async def remove_group(self, group: Group) -> None:
        """The group is no more; its claims are over. Raises `UnknownGroup`."""
        ...

    async def group_state(self, group: Group) -> GroupState:
        """A group's counters."""
        ...

    async def publish(self, publication: Publication) -> list[Receipt] | Conflict:
        """Accepts the drafts, all or none; answered after the commit."""
        ...

    async def cancel(self, id_: int) -> Verdict:
        """Cancels a waiting message; the verdict is exact. Raises `Busy` when a transaction keeps holding it."""
        ...

    async def reschedule(self, id_: int, deliver_at: int) -> Verdict:
        """Gives a waiting message another time. Raises `Busy`."""
        ...

    async def claim(
        self, group: Group, client: str, size: int, wait: int, lease: int, *, tags: frozenset[str] | None = None
    ) -> Claim | None:
        """Up to `size` messages for `lease`, waiting up to `wait` for the first; None when there are none.

        Messages of other `tags` are skipped for the group.
        """
        ...

    async def read_on(self, request: ReadRequest, wait: int) -> ReadAnswer:
        """Messages for a client of a broadcast topic, waiting up to `wait` for the first."""
        ...

    async def renew(self, client: str) -> int:
        """The client lives, and is watched from now on; until when, without another sign of life."""
        ...

    async def deregister(self, client: str) -> tuple[bool, int]:
        """The client goes: whether it was watched, and how many of its claims were ended."""
        ...

    async def clients(self, after: str, limit: int) -> list[ClientState]:
        """Up to `limit` clients by name, from behind `after`: whether they live, and what they hold."""
        ...

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
        """Acks, fails or extends; `Settled.lost` says that nothing was done. Raises `UnknownClaim`."""
        ...

    async def find_message(self, id_: int) -> Found | None:
        """The message, wherever it is, and its life."""
        ...

    async def find_labelled(self, topic: Topic, key: str, after: int, limit: int) -> FoundPage:
        """The messages of a key by id, from behind `after`."""
        ...

    async def find(self, topic: Topic, wanted: Wanted, place: Place, limit: int) -> FoundPage:
        """Messages of a topic by state and time."""
        ...

    async def upcoming(self, topic: Topic, since: int | None, width: int, buckets: int) -> Upcoming:
        """How many messages fall due in each stretch of `width` from a time on, or from now, with what is overdue."""
        ...

    async def find_dead(self, group: Group, search: DeadSearch, after: int, limit: int) -> DeadPage:
        """A page of a group's dead letters that fit, by message id from behind `after`."""
        ...

    async def seek(
        self, group: Group, queues: Sequence[Queue], position: Position, *, dry_run: bool
    ) -> list[tuple[int, int]]:
        """Closes the group's claims on these queues and moves it; (number, offset) of each."""
        ...

    async def replay(self, group: Group, range_: Range, *, dry_run: bool) -> Worked:
        """A range once more for this group, through its retry queues."""
        ...

    async def redrive(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        """Dead letters back to their group, `rate` a second at most."""
        ...

    async def purge(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        """Dead letters away for good."""
        ...

    async def pull(self, queue: Queue, offset: int, size: int, wait: int) -> list[Delivered]:
        """Messages of a queue from an offset on, waiting up to `wait` for the first."""
        ...

    def claim_id(self, claim: Claim) -> str:
        """The claim's name outside."""
        ...

    async def readiness(self) -> list[tuple[str, str | None]]:
        """(check, what is wrong or None) for /readyz: store, schema, clock, hand, durability."""
        ...
