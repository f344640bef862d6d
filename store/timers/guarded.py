"""Messages with a guard: when such a message is due, it is checked against a table of the user's before it is sent.

No guard is asked within a transaction of the store: a slow one would keep rows locked that a cancel waits for. So
promotion leaves a message with a guard where it is, and reports it; when its guard has been asked, the message is
promoted again, with the answer. The message's row decides as always: if it was cancelled meanwhile, it is gone; if it
was rescheduled, it is not due. The answer may be a moment old when the promotion is committed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from attrs import define, field

from ..ids import places_of
from ..ports import Transaction
from ..rows import Due
from ..stream.tallies import locked_tallies
from .timers import Judged, cancel_locked, lock_waiting


class Guarded(NamedTuple):
    """A waiting message, its guard, and the key that the guard is asked about."""

    id: int
    due: int
    guard: str
    key: str


class Suppressed(NamedTuple):
    """A message that its guard has suppressed."""

    id: int
    topic_id: int


@define
class Guarding:
    """Judges messages with a guard in one run of a transaction; made anew for each run."""

    now: int
    tally_shard: int
    """The shard of the tally rows to count in."""
    answers: Mapping[int, bool] = field(factory=dict[int, bool])
    """The answers of the guards, by message: whether it is to be sent."""
    fresh: Callable[[], bool] = bool
    """Whether the answers are recent enough to be used."""
    left: dict[int, str] = field(factory=dict[int, str], init=False)
    """Messages that are due and whose guard has to be asked, with the guard's name."""
    suppressed: list[Suppressed] = field(factory=list[Suppressed], init=False)

    async def judge(self, tx: Transaction, rows: Sequence[Due]) -> Judged:
        """Decides which of these messages, locked and due, are sent. The others are suppressed, or stay: those without
        an answer, and those whose tally another transaction holds."""
        answers = self.answers if self.answers and self.fresh() else dict[int, bool]()
        ended = [row for row in rows if answers.get(row.id) is False]
        locked = await locked_tallies(tx, {row.topic_id for row in ended}, self.tally_shard)
        ended = [row for row in ended if row.topic_id not in locked]
        sent = [row for row in rows if answers.get(row.id) is True]
        gone = {row.id for row in sent + ended}
        names: dict[int, str] = {}
        unsent = {row.id for row in sent}
        if asked := [row.place for row in rows if row.id not in unsent]:
            named = await tx.fetch("delay.guards", tuple[int, str | None], asked)
            names = {id_: guard or "" for id_, guard in named}
            self.left |= {id_: guard for id_, guard in names.items() if id_ not in gone}
        if ended:
            taken = await lock_waiting(tx, [row.id for row in ended])  # read again, with their keys
            await cancel_locked(tx, taken, self.now, self.tally_shard, guards=names)
            self.suppressed += [Suppressed(row.id, row.topic_id) for row in taken]
        return Judged(sent)


async def questions(tx: Transaction, ids: Sequence[int]) -> list[Guarded]:
    """The questions to the guards of these messages; messages that no longer wait, or have no guard, are left out."""
    rows = await tx.fetch("delay.guarded", tuple[int, int, str | None, str | None], places_of(ids))
    return [Guarded(id_, due, guard, key or "") for id_, due, guard, key in rows if guard is not None]


async def note(tx: Transaction, name: str) -> None:
    """Records that messages name this guard from now on."""
    await tx.execute_many("guard.add", [(name.encode(),)])


async def noted(tx: Transaction) -> list[str]:
    """The guards that messages have named."""
    return await tx.fetch("guard.all", str)


async def forget(tx: Transaction, name: str) -> None:
    """Forgets a guard that no waiting message names."""
    await tx.execute("guard.remove", name.encode())


async def waiting_in(tx: Transaction, shard: int, after: int, limit: int) -> tuple[dict[str, int], int | None]:
    """How many messages in a page of a shard wait with each guard; and where the next page begins, None after the
    last."""
    rows = await tx.fetch("delay.guarded_in", tuple[str | None, int, int], shard, after, limit)
    last = max((row[1] for row in rows), default=None)
    full = sum(row[2] for row in rows) == limit
    return {guard: many for guard, _, many in rows if guard is not None}, last if full else None
