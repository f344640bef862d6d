"""Grants: what a claim request is given in a turn, range by range; to the client it is one claim, with one token.

The ranges are all of the topic's own queues or all of retry queues, never of both: after a replay a message may lie in
both, and a claim must hold it only once.
"""

import secrets
from collections.abc import Iterable

from attrs import define, evolve, field

from ..records import Claim, ClaimKey, ClaimRequest
from ..stream.stretches import CLAIM_BYTES
from .claim_ids import RANGES


@define(eq=False)
class Grant:
    """A request, and the ranges that it has been given in this turn."""

    request: ClaimRequest
    ranges: list[Claim] = field(factory=list[Claim], init=False)
    returned: bool = field(default=False, init=False)
    """Whether its ranges are of retry queues."""
    bytes_left: int = field(default=CLAIM_BYTES, init=False)
    """How many more bytes of bodies it may be given; with none left it gets no more ranges."""
    _left: int = field(init=False)
    _token: int = field(factory=lambda: secrets.randbits(63), init=False)

    def __attrs_post_init__(self) -> None:
        self._left = self.request.size

    @property
    def room(self) -> int:
        """How many more messages it may be given. A request by tags gets one range only, for which enough was read."""
        full = self.ranges and (self.request.tags is not None or len(self.ranges) == RANGES or self.bytes_left <= 0)
        return 0 if full else self._left

    def has(self, queue_id: int) -> bool:
        """Whether its last range is of this queue."""
        return bool(self.ranges) and self.ranges[-1].key.queue_id == queue_id

    def key(self, group_id: int, queue_id: int, number: int, first: int) -> ClaimKey:
        """The key of its next range."""
        return ClaimKey(group_id, queue_id, number, first, self._token)

    def add(self, claim: Claim, *, returned: bool) -> None:
        """Adds a range."""
        self.ranges.append(claim)
        self.returned = returned
        self.bytes_left -= sum(len(message.body) for message in claim.messages)
        self._left -= len(claim.messages)

    @property
    def claim(self) -> Claim | None:
        """All ranges as one claim; None if there are none."""
        return evolve(self.ranges[0], others=tuple(self.ranges[1:])) if self.ranges else None


def next_to_serve(grants: Iterable[Grant], queue_id: int, *, returned: bool) -> Grant | None:
    """The grant that gets the next range of this queue: the first that has nothing yet; then the first with room.

    None: no grant. A claim does not get two ranges of a queue in a row: if the first was short, enough was read.
    """
    more: Grant | None = None
    for grant in grants:
        if not grant.ranges:
            return grant
        if more is None and grant.room > 0 and grant.returned == returned and not grant.has(queue_id):
            more = grant
    return more
