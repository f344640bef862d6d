"""Push: the endpoint that the messages of a group are posted to, and whether that works; a row for each such group.

Posted messages are in ordinary claims, which hold their outcomes; nothing about messages is stored here.
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
    """The push settings of a group. Times are Unix milliseconds, durations milliseconds."""

    group_id: int
    url: str
    secrets: str = field(repr=False)
    """The secrets as given, separated by spaces. They are used only for signing, and never shown in answers or the
    log."""
    timeout: int
    max_in_flight: int
    changed_at: int
    """When it was set. It rises each time, so that a result of an earlier endpoint is not recorded for the next one."""
    off_at: int | None = None
    """When the endpoint said that it is gone; since then nothing is posted."""
    broken_at: int | None = None
    """Since when a node cannot reach the endpoint, and only tries it now and then."""
    because: str | None = None
    """Why it is off or broken."""


async def all_pushes(tx: Transaction) -> list[PushRow]:
    """All push settings, in order of their groups."""
    return await tx.fetch("push.all", PushRow)


async def find(tx: Transaction, group_id: int) -> PushRow | None:
    """The push settings of a group; None if it has none."""
    return next(iter(await tx.fetch("push.find", PushRow, group_id)), None)


async def put(
    tx: Transaction, group: Group, url: str, secrets: str, timeout: int, max_in_flight: int, now: int
) -> tuple[PushRow, bool]:
    """Sets and switches on the push of a group. Returns its row, and True if it is new. Raises `TopicGone` and
    `GroupGone`."""
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
    """Records that the endpoint is gone; returns False when that was known, or the row was set again since."""
    return await tx.execute("push.switch_off", now, _cut(because), row.group_id, row.changed_at) > 0


async def broke(tx: Transaction, row: PushRow, because: str, now: int) -> bool:
    """Records that the endpoint cannot be reached; returns False when that was known, or the row was set again
    since."""
    return await tx.execute("push.broke", now, _cut(because), row.group_id, row.changed_at) > 0


async def mended(tx: Transaction, row: PushRow) -> bool:
    """Records that the endpoint can be reached again; returns False when that was known, or the row was set again
    since."""
    return await tx.execute("push.mended", row.group_id, row.changed_at) > 0


async def remove(tx: Transaction, group: Group) -> bool:
    """Removes the push of a group; returns False when it had none."""
    return await tx.execute("push.remove", [group.id]) > 0


def _cut(because: str) -> bytes:
    return because.encode()[:_LONGEST_REASON].decode(errors="ignore").encode()
