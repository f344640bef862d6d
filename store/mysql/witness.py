"""Tells whether a transaction was committed whose COMMIT got no answer: a row for each writing session holds the number
of its last commit.

When the answer to a COMMIT is lost, the server may still be working on it, so a plain read that does not find the
transaction proves nothing. Therefore every transaction that writes first sets its number in its session's row of
`witness`, in the flight of its first write, and the check locks that row. If the old session has written the row, it
holds the lock until it has committed or is rolled back. If not, its flight may still be on its way through a proxy: the
check closes the row, and a transaction that sets a number in it afterwards fails. So the answer is final either way. No
other session writes to that row, and the old one writes nothing more: a session whose COMMIT got no answer is given up.
"""

from attrs import frozen

from ..ports import Transaction
from .connection import Connection
from .statements import bind

_PAST = 1000


@frozen
class Witness:
    """A transaction, by its session and its number in that session."""

    session: int
    run: int

    def note(self) -> bytes:
        """The statement that sets the number, sent with the transaction's first write."""
        return bind("witness.note", (self.session, self.run))

    async def landed(self, tx: Transaction) -> bool:
        """Whether the transaction was committed; if not, it never will be once `tx` is committed.

        Waits for the end of the transaction's session; raises `Contention` when that takes too long.
        """
        await tx.later("witness.close", self.session, -self.run)
        return await tx.fetch("witness.last", int, self.session) == [self.run]


async def forget(connection: Connection) -> bool:
    """Removes a batch of rows of sessions that ended long ago; returns whether there may be more."""
    past = [session for (session,) in await connection.fetch(bind("witness.past", (_PAST,)))]
    if past:
        await connection.execute(bind("witness.remove", (past,)))
    return len(past) == _PAST
