"""Did it land? What each session that writes has committed last, in a row of its own.

When the answer to a COMMIT is lost, the server may still be at it: a plain read that does not find the transaction says
nothing. So every transaction that writes counts up its session's row of `witness`, in the flight of its first write,
and whoever wants to know locks that row. If the old session has been there, the lock is its own until it has committed
or is rolled back. If not, its flight may still be on its way, over whatever proxy is in between: the row is closed, and
a transaction that comes to count it up then fails. So the answer is final either way. No other session writes to that
row, and this one writes nothing more: a session whose COMMIT got no answer is given up.
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
        """Whether it was committed; if not, then it never will be, once `tx` is.

        Waits for the end of its session; `Contention` when that takes too long."""
        await tx.later("witness.close", self.session, -self.run)
        return await tx.fetch("witness.last", int, self.session) == [self.run]


async def forget(connection: Connection) -> bool:
    """Removes the rows of sessions that are long over, some of them; whether there are more."""
    past = [session for (session,) in await connection.fetch(bind("witness.past", (_PAST,)))]
    if past:
        await connection.execute(bind("witness.remove", (past,)))
    return len(past) == _PAST
