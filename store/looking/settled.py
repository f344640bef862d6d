"""Tells whether a group has yet to settle a message, by reading its rows; for schedules that wait for that."""

from ..ids import places_of
from ..ports import Transaction
from ..records import Outcome, mended
from ..rows import CursorState, OpenClaim, Return

_CLAIMS = 100


async def is_unsettled(tx: Transaction, id_: int, group_id: int) -> bool:
    """Whether the message waits, is ahead of the group's cursor, or is claimed, retrying or parked in the group. One
    that is gone or dead is settled. Reads the tables in the order in which a message can move."""
    if await tx.fetch("delay.queues", tuple[int, int], places_of([id_])):
        return True
    cursors = {row.queue_id: row.position for row in await tx.fetch("cursor.of_group", CursorState, group_id)}
    places = [(queue_id, offset) for queue_id, offset, _ in await tx.fetch("message.place", tuple[int, int, int], id_)]
    resting = await tx.fetch("retry.of_messages", tuple[int, int, int, int, bytes], [id_])
    parked = await tx.fetch("parked.of_messages", tuple[int, int, int, bytes, int], [id_])
    if any(row[1] == group_id for row in [*resting, *parked]):
        return True
    places += [(row.queue_id, row.offset) for row in await tx.fetch("redelivery.of_messages", Return, [id_])]
    for queue_id, offset in places:
        if queue_id in cursors and (offset >= cursors[queue_id] or await _is_held(tx, group_id, queue_id, offset)):
            return True
    return False


async def _is_held(tx: Transaction, group_id: int, queue_id: int, offset: int) -> bool:
    after = 0
    while page := await tx.fetch("claim.page", OpenClaim, group_id, queue_id, after, _CLAIMS):
        for row in page:
            at = offset - row.first
            if 0 <= at < row.size and mended(row.outcome[at : at + 1], 1)[0] == Outcome.OPEN:
                return True
        after = page[-1].number + 1
    return False
