"""Push: where the messages of a group are posted to, and whether that works. One row for each group that has it.

What is posted is an ordinary claim's, and its fate is in the claim; nothing of a message is here.
"""

from attrs import field, frozen

from ..errors import GroupGone, TopicGone
from ..ports import Transaction
from ..records import Group
from ..rows import encode

_LONGEST_REASON = 255
"""Bytes."""


@frozen
class PushRow:
    """Times are Unix milliseconds, durations milliseconds."""

    group_id: int
    url: str
    secrets: str = field(repr=False)
    """As they were given, a space between them. They are for signing alone: neither an answer nor the log has them."""
    timeout: int
    max_in_flight: int
    changed_at: int
    """When it was set. It rises each time, so that what befell an endpoint is not said of the next one."""
    off_at: int | None = None
    """The endpoint said that it is gone, and nothing is posted any more."""
    broken_at: int | None = None
    """Since when a server has found the endpoint away, and only tries it now and then."""
    because: str | None = None
    """Why it is off or broken."""


async def all_pushes(tx: Transaction) -> list[PushRow]:
    """By group."""
    return await tx.fetch("push.all", PushRow)


async def find(tx: Transaction, group_id: int) -> PushRow | None:
    """Of one group."""
    return next(iter(await tx.fetch("push.find", PushRow, group_id)), None)


async def put(
    tx: Transaction, group: Group, url: str, secrets: str, timeout: int, max_in_flight: int, now: int
) -> tuple[PushRow, bool]:
    """Sets it, and switches it on; True when there was none. Raises `TopicGone` and `GroupGone`."""
    if not await tx.fetch("topic.lock", int, group.topic.id):
        raise TopicGone(f"topic {group.topic.name!r} has been removed meanwhile")
    if not await tx.fetch("consumer_group.topics_of", tuple[int, int], [group.id]):
        raise GroupGone(f"group {group.name!r} of topic {group.topic.name!r} has been removed meanwhile")
    before = await tx.fetch("push.lock", int, group.id)
    row = PushRow(group.id, url, secrets, timeout, max_in_flight, max([now, *(at + 1 for at in before)]))
    values = (row.group_id, encode(url), encode(secrets), timeout, max_in_flight, row.changed_at, None, None, None)
    await tx.execute_many("push.put", [values])
    return row, not before


async def switch_off(tx: Transaction, row: PushRow, because: str, now: int) -> bool:
    """The endpoint is gone; False when it was known, or the row was set anew since."""
    return await tx.execute("push.switch_off", now, _cut(because), row.group_id, row.changed_at) > 0


async def broke(tx: Transaction, row: PushRow, because: str, now: int) -> bool:
    """The endpoint is away; False when it was known, or the row was set anew since."""
    return await tx.execute("push.broke", now, _cut(because), row.group_id, row.changed_at) > 0


async def mended(tx: Transaction, row: PushRow) -> bool:
    """The endpoint is there again; False when it was known, or the row was set anew since."""
    return await tx.execute("push.mended", row.group_id, row.changed_at) > 0


async def remove(tx: Transaction, group: Group) -> bool:
    """Nothing is posted any more; False when nothing was."""
    return await tx.execute("push.remove", [group.id]) > 0


def _cut(because: str) -> bytes:
    return because.encode()[:_LONGEST_REASON].decode(errors="ignore").encode()
