"""Did it land? What each session that writes has committed last, in a row of its own.

When the answer to a COMMIT is lost, the server may still be at it: a plain read that does not find the transaction says
nothing. So every transaction that writes counts up its session's row of `witness`, in the flight of its first write,
and whoever wants to know reads that row for update. The lock is the old session's until it has committed or is rolled
back, whatever became of the line to it and whatever proxy is in between, so the answer is final. No other session
writes to that row, and this one writes nothing more: a session whose COMMIT got no answer is given up.
"""

from attrs import frozen

from ..ports import Transaction
from .connection import Connection
from .statements import bind

_PAST = 1000


@frozen
class Witness:
    """One transaction of one session."""

    session: int
    run: int

    def note(self) -> bytes:
        """The statement that goes with its first write."""
        return bind("witness.note", (self.session, self.run))

    async def landed(self, tx: Transaction) -> bool:
        """Whether it was committed. Waits for the end of its session; `Contention` when that takes too long."""
        return await tx.fetch("witness.last", int, self.session) == [self.run]


async def forget(connection: Connection) -> None:
    """Removes the rows of sessions that are long over."""
    past = [session for (session,) in await connection.fetch(bind("witness.past", (_PAST,)))]
    if past:
        await connection.execute(bind("witness.remove", (past,)))
