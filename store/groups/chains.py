"""Chains of an ordered topic: the messages of a key that must come back before it goes on, and those parked behind.

A key has a chain in a group from the failure of one of its messages until none of them is left to come back. Its
members are `away` (on the ladder, in the retry queue, or in a claim from it) or parked. While a key has a chain, its
new messages are parked when they would be claimed. At the end of every transaction no parked message lies before one
that is away: parked messages with none away before them are released into the retry queue, in order.

All chains of a queue are changed under the lock of the group's cursors. Messages without an ordering key share the
empty key, so that all messages without a key in a queue are one order.
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from attrs import define, field

from ..ports import Transaction, Value
from ..records import Group
from ..rows import Source
from ..stream.offsets import draw_offsets

_AT_ONCE = 100
"""How many messages of a chain are released together: its row has the offset of each."""


class ChainRow(NamedTuple):
    """A chain as it is stored: its offsets in eight bytes each."""

    ordering_key: bytes
    away: bytes


class ParkedRow(NamedTuple):
    """A parked message."""

    message_offset: int
    message_id: int
    attempt: int
    history: bytes


@define
class Chain:
    """One key of one queue. Offsets are those of the messages in the topic's own queue."""

    queue_id: int
    ordering_key: bytes
    away: set[int] = field(factory=set[int])
    stored: bool = False

    def encode(self) -> bytes:
        return b"".join(offset.to_bytes(8, "big") for offset in sorted(self.away))


@define
class Chains:
    """The chains that a transaction of a group deals with."""

    group: Group
    now: int
    _chains: dict[tuple[int, bytes], Chain] = field(factory=dict[tuple[int, bytes], Chain])
    _looked: set[tuple[int, bytes]] = field(factory=set[tuple[int, bytes]])
    _changed: set[tuple[int, bytes]] = field(factory=set[tuple[int, bytes]])
    _parked: dict[tuple[int, bytes], list[Source]] = field(factory=dict[tuple[int, bytes], list[Source]])
    """Messages to be parked, not written yet, by queue and key."""

    async def load(self, tx: Transaction, queue_id: int, ordering_keys: Iterable[bytes]) -> None:
        """Locks and reads the chains of these keys, once."""
        keys = sorted({key for key in ordering_keys if (queue_id, key) not in self._looked})
        if keys:
            self._looked.update((queue_id, key) for key in keys)
            self._note(queue_id, await tx.fetch("chain.lock", ChainRow, self.group.id, queue_id, keys))

    def _note(self, queue_id: int, rows: Iterable[ChainRow]) -> None:
        for key, away in rows:
            offsets = {int.from_bytes(away[at : at + 8], "big") for at in range(0, len(away), 8)}
            self._chains[queue_id, key] = Chain(queue_id, key, offsets, stored=True)

    def find(self, queue_id: int, ordering_key: bytes) -> Chain | None:
        """The chain of a key that was loaded, if it has one."""
        return self._chains.get((queue_id, ordering_key))

    def go(self, queue_id: int, ordering_key: bytes, offset: int) -> None:
        """Notes that a message of the key is away from now on."""
        self._begin(queue_id, ordering_key).away.add(offset)

    def come(self, queue_id: int, ordering_key: bytes, offset: int) -> None:
        """Notes that a message, whether it was away or not, needs no waiting for any more."""
        if (chain := self.find(queue_id, ordering_key)) is not None:
            chain.away.discard(offset)
            self._changed.add((queue_id, ordering_key))

    def park(self, ordering_key: bytes, source: Source) -> None:
        """Parks a message behind its key."""
        place = (source.message_queue_id, ordering_key)
        self._begin(*place).away.discard(source.message_offset)
        self._parked.setdefault(place, []).append(source)

    def _begin(self, queue_id: int, ordering_key: bytes) -> Chain:
        place = (queue_id, ordering_key)
        self._changed.add(place)
        if place not in self._chains:
            self._chains[place] = Chain(queue_id, ordering_key)
        return self._chains[place]

    async def forget(self, tx: Transaction, queue_id: int, offsets: Collection[int]) -> None:
        """Takes messages that are gone from the stream, whatever their keys were, out of all chains of the queue."""
        known = {place: chain for place, chain in self._chains.items() if place[0] == queue_id}
        self._note(queue_id, await tx.fetch("chain.of_queue", ChainRow, self.group.id, queue_id))
        self._chains |= known
        self._looked.update(self._chains)  # reading one of them again would bring the removed messages back
        for (at, key), chain in self._chains.items():
            if at == queue_id and not chain.away.isdisjoint(offsets):
                chain.away.difference_update(offsets)
                self._changed.add((queue_id, key))

    async def first_parked(self, tx: Transaction, queue_id: int, ordering_key: bytes) -> int:
        """The offset of the first parked message of the key; larger than any offset when there is none."""
        place = (queue_id, ordering_key)
        stored = await tx.fetch("parked.first", ParkedRow, self.group.id, *place, sys.maxsize, 1)
        parked = [*stored, *self._parked.get(place, ())]
        return min([message.message_offset for message in parked], default=sys.maxsize)

    async def write(self, tx: Transaction) -> bool:
        """Writes the changes, and releases parked messages with none away before them. Returns True when messages came
        into a retry queue."""
        parked = [
            (self.group.id, *place, one.message_offset, one.message_id, one.attempt, one.history, self.now)
            for place, some in self._parked.items()
            for one in some
        ]
        if parked:
            await tx.execute_many("parked.add", parked)
            self._parked.clear()
        released: dict[int, list[ParkedRow]] = defaultdict(list)
        rows: list[Sequence[Value]] = []
        for place in sorted(self._changed):
            chain, key = self._chains[place], (self.group.id, *place)
            free = await tx.fetch("parked.first", ParkedRow, *key, min(chain.away, default=sys.maxsize), _AT_ONCE)
            if free:
                chain.away.update(message.message_offset for message in free)
                released[chain.queue_id] += free
                await tx.execute("parked.remove", *key, free[-1].message_offset)
            if chain.away:
                rows.append((*key, chain.encode()))
                chain.stored = True
                continue
            if chain.stored:
                await tx.execute("chain.remove", *key)
            del self._chains[place]
        self._changed.clear()
        if rows:
            await tx.execute_many("chain.put", rows)
        if released:
            await self._release(tx, released)
        return bool(released)

    async def _release(self, tx: Transaction, released: dict[int, list[ParkedRow]]) -> None:
        """Moves released messages into the retry queues, in the order of the stream."""
        backs = {queue_id: self.group.retry_queue_of[queue_id].id for queue_id in released}
        begins = await draw_offsets(tx, {backs[queue_id]: len(rows) for queue_id, rows in released.items()})
        returned: list[Sequence[Value]] = []
        for queue_id, rows in released.items():
            for number, message in enumerate(sorted(rows), begins[backs[queue_id]]):
                returned.append((backs[queue_id], number, 0, queue_id, *message, self.now, 0))
        await tx.execute_many("redelivery.add", returned)
