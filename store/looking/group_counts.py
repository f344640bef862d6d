"""Counts what many groups have yet to do, in few statements however many groups there are: never reads messages.

The details of a single group (its queues, clients and rungs) are in `catalogue.group_state`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from ..ports import Transaction
from ..records import Group, Outcome

_TOGETHER = 1000
"""How many groups one statement asks about."""
_IN_HAND = (Outcome.OPEN, Outcome.ACKED_OUTSIDE)


@frozen
class GroupCounts:
    """The counts of one group, as in `GroupState`."""

    backlog: int
    """Messages yet to be claimed, returned retries included. In a broadcast group, in each queue for the client that is
    furthest behind."""
    claimed: int = 0
    retrying: int = 0
    """Messages that rest on a rung of the ladder."""
    dead: int = 0
    letters: int = 0


@frozen
class Standings:
    """Counts of all groups by group id; groups whose count is 0 are left out."""

    backlogs: Mapping[int, int]
    letters: Mapping[int, int]


async def of_groups(tx: Transaction, groups: Sequence[Group]) -> dict[int, GroupCounts]:
    """The counts by group id; a removed group is missing, unless its topic is a broadcast topic."""
    found: dict[int, GroupCounts] = {}
    for begin in range(0, len(groups), _TOGETHER):
        some = groups[begin : begin + _TOGETHER]
        found |= await _of_clusters(tx, [group for group in some if group.topic.kind == "cluster"])
        found |= await _of_broadcasts(tx, [group for group in some if group.topic.kind == "broadcast"])
    return found


async def _of_clusters(tx: Transaction, groups: Sequence[Group]) -> dict[int, GroupCounts]:
    if not groups:
        return {}
    ids = [group.id for group in groups]
    parked: dict[int, int] = {}
    if ordered := [group.id for group in groups if group.topic.ordered]:
        parked = dict(await tx.fetch("parked.counts", tuple[int, int], ordered))
    claimed: Counter[int] = Counter()
    for group_id, outcome in await tx.fetch("claim.of_groups", tuple[int, bytes], ids):
        claimed[group_id] += sum(map(outcome.count, _IN_HAND))
    rows = await tx.fetch("cursor.counts", tuple[int, int, int, int, int, int], ids)
    return {
        # `left` counts both parked messages and those put on the ladder, and `returned` those that came back of both.
        id_: GroupCounts(lag, claimed[id_], max(0, left - returned - parked.get(id_, 0)), dead, letters)
        for id_, lag, left, returned, dead, letters in rows
    }


async def _of_broadcasts(tx: Transaction, groups: Sequence[Group]) -> dict[int, GroupCounts]:
    if not groups:
        return {}
    queues = sorted({queue.id for group in groups for queue in group.topic.queues})
    ends = dict(await tx.fetch("queue.ends", tuple[int, int], queues))
    lags: Counter[int] = Counter()
    for group_id, queue_id, least in await tx.fetch("reader.least", tuple[int, int, int], [one.id for one in groups]):
        lags[group_id] += max(0, ends.get(queue_id, 0) - least)
    return {group.id: GroupCounts(lags[group.id]) for group in groups}


async def standings(tx: Transaction) -> Standings:
    """The backlogs and dead letters of all groups; scans their cursors, and the offsets of broadcast clients."""
    rows = await tx.fetch("cursor.standings", tuple[int, int, int])
    broadcasts = await tx.fetch("reader.backlogs", tuple[int, int])
    letters = ((id_, dead) for id_, _, dead in rows)
    return Standings(_some((*((id_, lag) for id_, lag, _ in rows), *broadcasts)), _some(letters))


def _some(counts: Iterable[tuple[int, int]]) -> dict[int, int]:
    return {id_: many for id_, many in counts if many > 0}
