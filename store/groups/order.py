"""Keeps the order of an ordered topic in a turn: no message is handed out while an earlier one of its key is unsettled
elsewhere.

A queue and its retry queue belong to one client, and only one claim of the two is open at a time. A claim may hold
several messages of a key, in order. When one of them goes back, those behind it leave the claim with it, and are
parked. The messages that a key waits for are its chain (see `chains`).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from attrs import define, field, frozen

from ..ports import Transaction
from ..records import Delivered, Group, Outcome, Settlement
from ..rows import Source
from ..states import AFTER
from .chains import Chains
from .grants import Grant, next_to_serve
from .locked_rows import ClaimRow
from .owners import share_out


class Member(NamedTuple):
    """A message of a claim: its offset in the claimed queue and in the topic's own queue, and its key."""

    offset: int
    message_offset: int
    id: int
    """Negative: the message is gone from the stream."""
    ordering_key: bytes | None

    @property
    def key(self) -> bytes:
        """The ordering key; messages without one share the empty key."""
        return self.ordering_key or b""


@define
class _Known:
    """A claim with its messages by position, and their outcomes before this turn."""

    claim: ClaimRow
    before: bytes
    members: dict[int, Member]


@frozen
class Picked:
    """The messages of a span of offsets that may be handed out; the offsets of those that are parked, and of those with
    other tags."""

    given: Sequence[tuple[int, Delivered]]
    parked: Sequence[int] = ()
    skipped: Sequence[int] = ()


@define
class Order:
    """The keys, chains and owners that a turn of a group deals with."""

    group: Group
    now: int
    _chains: Chains = field(init=False)
    _own_queues: dict[int, int] = field(init=False)
    """The topic's queue that each retry queue belongs to, by their ids."""
    _known: dict[tuple[int, int], _Known] = field(factory=dict[tuple[int, int], _Known], init=False)
    """By queue and number of the claim."""
    _owners: dict[int, str] = field(factory=dict[int, str], init=False)
    """The client that may claim from each of the topic's queues; a queue with an open claim is missing."""

    def __attrs_post_init__(self) -> None:
        self._chains = Chains(self.group, self.now)
        self._own_queues = {back.id: queue_id for queue_id, back in self.group.retry_queue_of.items()}

    def _own(self, queue_id: int) -> int:
        return self._own_queues.get(queue_id, queue_id)

    # Settling

    async def load(self, tx: Transaction, claims: Iterable[ClaimRow], settlements: Iterable[Settlement]) -> None:
        """Reads the keys of the claims that are to be settled, and locks their chains.

        Acks in the topic's own queue change no chain, so their claims are left out.
        """
        giving_back = {(s.key.queue_id, s.key.number) for s in settlements if s.verb in ("fail", "end")}
        for claim in claims:
            place, own = (claim.queue_id, claim.number), self._own(claim.queue_id)
            if own == claim.queue_id and place not in giving_back:
                continue
            members = await self._members(tx, claim.queue_id, claim.first, claim.first + claim.size)
            there = {member.offset - claim.first: member for member in members if member.id >= 0}
            self._known[place] = _Known(claim, bytes(claim.outcome), there)
            await self._chains.load(tx, own, {member.key for member in there.values()})

    async def _members(self, tx: Transaction, queue_id: int, first: int, end: int) -> list[Member]:
        own = self._own(queue_id) == queue_id
        return await tx.fetch("message.members" if own else "redelivery.members", Member, queue_id, first, end)

    def split(self, claim: ClaimRow, places: Collection[int]) -> tuple[list[int], list[int]]:
        """Splits messages that go back: the first of each key; and all open messages of the claim that come after one
        of these in its key."""
        known = self._known.get((claim.queue_id, claim.number))
        keys: list[bytes | int] = list(range(claim.size))  # a message that is gone from the stream is alone
        for place, member in known.members.items() if known is not None else ():
            keys[place] = member.key
        first: dict[bytes | int, int] = {}
        for place in sorted(places):
            first.setdefault(keys[place], place)
        behind = [place for place in claim.places(Outcome.OPEN) if first.get(keys[place], claim.size) < place]
        return sorted(first.values()), behind

    def note_acks(self) -> None:
        """Takes messages of the retry queues that were acked in this turn out of their chains."""
        for known in self._known.values():
            if (own := self._own(known.claim.queue_id)) == known.claim.queue_id:
                continue
            for place, member in known.members.items():
                if known.before[place] != Outcome.ACKED and known.claim.outcome[place] == Outcome.ACKED:
                    self._chains.come(own, member.key, member.message_offset)

    def note(self, claim: ClaimRow, place: int, outcome: Outcome, source: Source | None) -> None:
        """Changes the chain of a message that has left its claim, by its outcome."""
        known = self._known.get((claim.queue_id, claim.number))
        member = known.members.get(place) if known is not None else None
        if member is None:
            return
        if source is not None and outcome == Outcome.PARKED:
            self._chains.park(member.key, source)
        elif AFTER[outcome] == "retrying":
            self._chains.go(self._own(claim.queue_id), member.key, member.message_offset)
        else:
            self._chains.come(self._own(claim.queue_id), member.key, member.message_offset)

    async def write(self, tx: Transaction) -> bool:
        """Writes the changes; returns True when parked messages were released into a retry queue."""
        return await self._chains.write(tx)

    # Claiming

    async def share(self, tx: Transaction, clients: Iterable[str]) -> None:
        """Shares the queues among these clients and those that hold claims."""
        busy = {
            self._own(queue_id): client
            for queue_id, client in await tx.fetch("claim.clients_of_group", tuple[int, str], self.group.id)
        }
        self._owners = await share_out(tx, self.group, busy, {*clients, *busy.values()}, self.now)

    def entitled(self, grants: Iterable[Grant], queue_id: int, *, returned: bool) -> list[Grant]:
        """The grants that may get messages of this queue: at most one, of its owner's."""
        owner = self._owners.get(self._own(queue_id))
        of_owner = [grant for grant in grants if grant.request.client == owner]
        grant = next_to_serve(of_owner, queue_id, returned=returned)
        return [] if grant is None else [grant]

    def close(self, queue_id: int) -> None:
        """Notes that a claim of this queue is open, so that no other is made of it or of its retry queue."""
        del self._owners[self._own(queue_id)]

    async def pick(
        self,
        tx: Transaction,
        queue_id: int,
        stretch: range,
        found: Sequence[tuple[int, Delivered]],
        tags: frozenset[str] | None,
    ) -> Picked:
        """Decides which of the messages found in a span of offsets may be handed out.

        A message with other tags is settled for the group when it is met, so its key never waits for it: in the topic's
        own queue it is not parked; in a retry queue, where it came back or was released, it leaves its key's chain.
        """
        own = self._own(queue_id)
        if own != queue_id and len(found) < len(stretch):
            await self._let_through(tx, queue_id, stretch, {offset for offset, _ in found})
        keys = {offset: (message.ordering_key or "").encode() for offset, message in found}
        await self._chains.load(tx, own, keys.values())
        given: list[tuple[int, Delivered]] = []
        with_it: set[tuple[bytes, int]] = set()
        parked: list[int] = []
        skipped: list[int] = []
        for offset, message in found:
            key = keys[offset]
            if tags is not None and message.tag not in tags:
                skipped.append(offset)
                if own != queue_id:
                    self._chains.come(own, key, message.offset)
            elif await self._is_free(tx, queue_id, key, message, with_it):
                given.append((offset, message))
                with_it.add((key, message.offset))
            else:
                parked.append(offset)
                self._chains.park(key, await self._source(tx, queue_id, offset, message))
        return Picked(given, parked, skipped)

    async def _let_through(self, tx: Transaction, queue_id: int, stretch: range, found: Collection[int]) -> None:
        """Takes messages of a span of a retry queue that are gone or expired out of their chains."""
        own = self._own(queue_id)
        members = await self._members(tx, queue_id, stretch.start, stretch.stop)
        if gone := {member.message_offset for member in members if member.id < 0}:
            await self._chains.forget(tx, own, gone)
        expired = [member for member in members if member.id >= 0 and member.offset not in found]
        await self._chains.load(tx, own, [member.key for member in expired])
        for member in expired:
            self._chains.come(own, member.key, member.message_offset)

    async def _source(self, tx: Transaction, queue_id: int, offset: int, message: Delivered) -> Source:
        if self._own(queue_id) == queue_id:
            return first_source(queue_id, offset, message.id, message.expires_at)
        (source,) = await tx.fetch("redelivery.sources", Source, queue_id, [offset])
        return source

    async def _is_free(
        self, tx: Transaction, queue_id: int, key: bytes, message: Delivered, with_it: Collection[tuple[bytes, int]]
    ) -> bool:
        """Whether no earlier message of its key is unsettled, other than those in the same claim."""
        own = self._own(queue_id)
        if own == queue_id:
            return self._chains.find(own, key) is None
        self._chains.go(own, key, message.offset)  # after a redrive or a replay its key may have no chain yet
        chain = self._chains.find(own, key)
        away = chain.away if chain is not None else set[int]()
        if any(offset < message.offset and (key, offset) not in with_it for offset in away):
            return False
        return await self._chains.first_parked(tx, own, key) > message.offset


def first_source(queue_id: int, offset: int, id_: int, expires_at: int | None) -> Source:
    """The source of a message in the topic's own queue, which has had no attempts."""
    return Source(offset, queue_id, offset, id_, 1, b"[]", expires_at)
