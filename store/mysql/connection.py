"""One session with the server: logs in, runs statements and transactions, and tells their outcome.

A `Connection` that was cancelled or broken in the middle of an exchange is closed, and stays closed.
"""

import math
import re
import secrets
import ssl
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, NoReturn

import attrs
import trio

from ..errors import Contention, OutcomeUnknown, ReadOnly, Refused, StoreError, Unavailable, Unfit
from . import galera, group, read_only
from .dsn import Dsn
from .errors import CUT_OFF, ROLLED_BACK, to_store_error, too_long
from .rows import Answer, ProtocolError, Row, ServerError
from .session import Kind, set_up
from .wire import COM_PING, COM_QUERY, MysqlError, Wire

_BEGIN, _COMMIT = b"SET autocommit = 0", b"COMMIT"

PATIENCE: dict[Kind, float] = {"write": 15.0, "read": 60.0, "migrate": math.inf}
"""Seconds to wait for the answers to a flight. A server reports a lock wait sooner (`session.WAITS`); one that stands
still, or whose COMMIT waits for a disk or for other servers, reports nothing."""

_NAME = b"CONCAT_WS(' ', @@global.server_id, @@hostname, @@global.port /*!80000 , @@global.server_uuid */)"
_WHO = b"SELECT CONNECTION_ID(), VERSION(), @@max_allowed_packet, " + _NAME + b", " + read_only.COLUMNS.encode()
_WSREP_ON = "wsrep_on"
_IN_GALERA = b"/*M! , @@global.wsrep_on */"
_UNKNOWN_VARIABLE = 1193
_QUOTED = re.compile(r"'([^']+)'")
_LACKING: dict[str, frozenset[str]] = {}
"""By the version in a server's greeting: the variables of `session` that such a server does not know."""
_DENIED = 1045
_HUNG_UP = 2013
_TWICE = "; the password was read with an '@' in it: user and password stand once in a DSN, before the first host"
_SAY_TLS = "say ssl_mode=VERIFY_IDENTITY in the DSN, or REQUIRED for a certificate that nobody here trusts"
_HINTS = {
    3159: f"; {_SAY_TLS}",
    1040: "; raise max_connections: one `tarry serve` may want 25 sessions",
}
NEEDED = "Tarry needs MySQL 8.0 or MariaDB 10.6 at the least, with InnoDB"
_OLDEST = {"mysql": (8, 0), "mariadb": (10, 6)}


@attrs.frozen
class Server:
    """The kind and the version of the server."""

    flavour: Literal["mysql", "mariadb"]
    version: tuple[int, ...]
    text: str


@attrs.frozen
class Cluster:
    """How to ask a member of a cluster, whose members commit together, about its state."""

    query: bytes
    why_cut_off: Callable[[Sequence[Sequence[object]]], str | None]
    """Says, from the query's rows, why nothing should be written there; None if it may."""


GROUP = Cluster(group.MEMBERS, group.why_cut_off)
GALERA = Cluster(galera.STATES, galera.why_cut_off)


class Connection:
    """An open session, made by `connect`. One task at a time.

    Any method may raise any error of `store.errors`. After `Unavailable`, and after a cancel, the connection is closed.
    Affected rows are the rows that a statement matched (FOUND_ROWS), not those it changed: an UPDATE counts a row even
    if it sets the values that the row has already. SQLite counts in the same way.
    """

    def __init__(self, wire: "Wire") -> None:
        self._wire = wire
        # `_begun`: between `begin` and `commit` or `rollback`; `_asked`: a statement was sent since `begin`.
        self._begun = self._asked = False
        # Off for good from the first `begin` on. So when a deadlock ends a transaction, statements that are already on
        # their way are not committed by themselves.
        self._autocommit = True
        # The server may have rolled back by itself: without a ROLLBACK the next statement would run without the ones
        # before it.
        self._must_roll_back = False
        self.server = Server("mysql", (), "")
        self._patience = math.inf
        self.id = 0
        """The server's number of the session, for KILL."""
        self.name = ""
        """The server's unique name, which distinguishes servers behind the same host."""
        self.read_only: str | None = None
        """Why the server took no writes when the session began; None: it took them."""
        self.cluster: Cluster | None = None
        """None when the server belongs to no cluster, or this user may not read `group.MEMBERS`."""
        self.silent = False
        """Whether a flight got no answer in time: the connection is open, but the server or its COMMITs stand still."""
        self.era = 0
        """See `hosts`."""
        self.max_allowed_packet = 1 << 20
        self.number = secrets.randbits(63)
        """The number of the session's row in `witness`. The server's own session numbers would repeat after a restart,
        and on another server."""
        self._runs = 0

    def __repr__(self) -> str:
        state = "closed" if self.closed else "in transaction" if self._begun else "open"
        return f"<Connection {self.id} {state} {self.server.text}>"

    @property
    def closed(self) -> bool:
        return self._wire.closed

    @property
    def in_transaction(self) -> bool:
        return self._begun

    @property
    def max_statement(self) -> int:
        """How many bytes a statement may have, for `Statement.bind_many`. If it has more, the server cuts the
        connection."""
        return self.max_allowed_packet - 2

    def is_stale(self) -> bool:
        """Whether it is closed, or the server has sent something unasked, which it does only to hang up. Costs no round
        trip."""
        return self._wire.closed or self._wire.is_readable()

    async def execute(self, sql: bytes) -> int:
        """Runs a statement that returns no rows; returns how many rows it matched.

        Outside a transaction it is committed by itself, so losing the connection meanwhile raises `OutcomeUnknown`.
        """
        answer = await self._ask(sql, commits=not self._begun)
        if answer.columns:
            raise ValueError(f"the statement gives rows, use fetch: {sql[:100]!r}")
        return answer.affected

    async def ask_all(self, statements: Sequence[bytes], *, write: bool) -> list[Answer]:
        """Runs statements one after the other, without waiting for answers in between. `write`: some of them write.

        When one fails, those after it are tried all the same: roll back. The server stops reading while its answers are
        not read, so statements after one with a long answer must fit into the buffers of the two sockets.
        """
        if write and len(statements) > 1 and not self._begun:
            raise RuntimeError("begin a transaction first")
        return await self._ask_all(statements, commits=write and not self._begun)

    async def fetch(self, sql: bytes) -> list[Row]:
        """The rows of a query."""
        return (await self._ask(sql)).rows

    async def begin(self) -> None:
        """Begins a transaction with the next statement, at no extra round trip.

        After the first `begin` the session runs no statement outside of a transaction.
        """
        if self._must_roll_back:
            raise RuntimeError("ROLLBACK first: a deadlock has ended the transaction")
        self._begun = True

    def count_run(self) -> int:
        """A number for a transaction that begins to write; unique within this session."""
        self._runs += 1
        return self._runs

    async def commit(self, statements: Sequence[bytes] = ()) -> list[Answer]:
        """Runs these statements and commits, in one flight. The server executes nothing after the first statement that
        fails; then the transaction is still open and must be rolled back.

        Raises `OutcomeUnknown` when the answer does not come. Run it where no request's cancel scope can reach it.
        """
        answers: list[Answer] = []
        if self._asked or statements:  # else there is nothing to commit
            *firsts, last = self._as_long_as_may_be([*statements, _COMMIT])
            for flight in firsts:
                answers += await self._ask_as_one(flight)
            answers += await self._ask_as_one(last, commits=True)
        self._begun = self._asked = False
        return answers

    def _as_long_as_may_be(self, statements: Sequence[bytes]) -> list[list[bytes]]:
        """The statements, split into flights that the server accepts; one flight unless they are very long."""
        room = left = self.max_statement - len(_BEGIN) - 1
        flights: list[list[bytes]] = [[]]
        for sql in statements:
            if flights[-1] and len(sql) > left:
                flights.append([])
                left = room
            flights[-1].append(sql)
            left -= len(sql) + 1
        return flights

    async def rollback(self) -> None:
        """Rolls back. A lost connection is no error, since the server rolls back by itself."""
        self._must_roll_back = False
        if self._asked and not self.closed:
            with suppress(Unavailable):
                await self._ask(b"ROLLBACK")
        self._begun = self._asked = False

    async def set_up(self, kind: Kind) -> None:
        """Sets the variables of `session`, and reads what kind of server this is."""
        lacking = _LACKING.get(self._wire.server_version, frozenset())
        while True:
            try:
                who = _WHO if _WSREP_ON in lacking else _WHO + _IN_GALERA
                *_, answer = await self.ask_all([set_up(kind, lacking), who], write=False)
            except Refused as error:
                name = _QUOTED.search(str(error))
                if error.code == _UNKNOWN_VARIABLE and (name is None or name[1] in lacking):
                    said = f"the server ({self._wire.server_version}) lacks what Tarry's sessions set: {error}"
                    raise Unfit(f"{said}. {NEEDED}", error.code) from error
                if error.code != _UNKNOWN_VARIABLE or name is None:
                    raise
                lacking = _LACKING[self._wire.server_version] = lacking | {name[1]}
            else:
                break
        self._patience = PATIENCE[kind]
        ((self.id, text, self.max_allowed_packet, self.name, *switches),) = answer.rows
        *switches, in_galera = switches if len(switches) > len(read_only.NAMES) else [*switches, 0]
        flavour: Literal["mysql", "mariadb"] = "mariadb" if "mariadb" in text.lower() else "mysql"
        version = tuple(int(number) for number in re.findall(r"\d+", text)[:3])
        if version < _OLDEST[flavour]:
            raise Unfit(f"the server is {flavour} {text}: {NEEDED}")
        self.server = Server(flavour, version, text)
        cluster = GROUP if flavour == "mysql" else GALERA if in_galera else None
        cut_off = None if cluster is None else await self._join(cluster)
        self.read_only = cut_off or read_only.why_read_only(switches)  # a member that is cut off is mostly both

    async def _join(self, cluster: Cluster) -> str | None:
        """Asks about the cluster's state; returns why nothing should be written here, None if it may."""
        try:
            rows = await self.fetch(cluster.query)
        except Unavailable:
            raise
        except StoreError:  # this user lacks the right, or the server has no such table
            return None
        self.cluster = cluster
        return cluster.why_cut_off(rows)

    async def catch_up(self) -> None:
        """Waits until the node has applied all that its Galera had committed: a node may answer before that."""
        await self.ask_all(galera.CATCH_UP, write=False)

    async def ping(self) -> None:
        """Raises `Unavailable` when the server does not answer."""
        await self._ask(b"", command=COM_PING)

    def close(self) -> None:
        """Never blocks, never raises. An open transaction is rolled back by the server."""
        self._wire.quit()

    async def _ask(self, sql: bytes, *, commits: bool = False, command: int = COM_QUERY) -> Answer:
        (answer,) = await self._ask_all([sql], commits=commits, command=command)
        return answer

    async def _ask_all(
        self, statements: Sequence[bytes], *, commits: bool = False, command: int = COM_QUERY
    ) -> list[Answer]:
        begins = self._begins(statements, begun=self._begun or command == COM_PING)
        with self._lost(commits=commits):
            answers = await self._wire.ask(command, [*begins, *statements])
        for answer in answers:
            if answer.error is not None:
                self._raise(answer.error, commits=commits)
        if begins:
            self._autocommit = False
        return answers[len(begins) :]

    async def _ask_as_one(self, statements: Sequence[bytes], *, commits: bool = False) -> list[Answer]:
        """Runs statements as one command. `commits`: the last one commits."""
        begins = self._begins(statements, begun=self._begun)
        with self._lost(commits=commits):
            answers = await self._wire.ask_as_one([*begins, *statements])
        error = answers[-1].error
        if error is not None:
            # If a statement before the COMMIT failed, the COMMIT was not begun; unless the error is no answer at all.
            self._raise(error, commits=commits and (error.unasked or len(answers) == len(begins) + len(statements)))
        self._autocommit = False
        return answers[len(begins) :]

    def _begins(self, statements: Sequence[bytes], *, begun: bool) -> list[bytes]:
        """The statement that has to be sent before these to begin the transaction, if any."""
        if self.closed:
            raise Unavailable("the connection is closed", 2006)
        if self._must_roll_back:
            raise RuntimeError("ROLLBACK first: a deadlock has ended the transaction")
        if not (begun or self._autocommit):
            raise RuntimeError("begin a transaction first: this session commits nothing by itself any more")
        for sql in statements:
            if len(sql) > self.max_statement:
                # The server would cut the connection, which looks like an outage that a retry may mend.
                raise too_long("a statement", len(sql), self.max_statement)
        self._asked = self._begun
        return [_BEGIN] if self._begun and self._autocommit else []

    def _raise(self, error: ServerError, *, commits: bool) -> NoReturn:
        fault = to_store_error(error.code, error.message)
        if error.unasked or isinstance(fault, Unavailable) or error.code == 1153:
            self._wire.quit()
        # A COMMIT may fail after the point of no return, with any error but one that says it was rolled back. A node of
        # a Galera says that (1213) also when it was cut off in the middle and the other nodes may have the transaction.
        is_rolled_back = isinstance(fault, ReadOnly) and error.code in ROLLED_BACK
        is_rolled_back |= isinstance(fault, Contention) and self.cluster is not GALERA
        half_done = self._begun and not is_rolled_back
        if commits and (error.unasked or error.code in CUT_OFF or half_done):
            self._wire.quit()
            raise OutcomeUnknown(str(fault), error.code)
        if error.unasked and not isinstance(fault, Unavailable):
            raise Unavailable(str(fault), error.code)
        self._must_roll_back = self._begun and isinstance(fault, Contention)
        raise fault

    @contextmanager
    def _lost(self, *, commits: bool) -> Generator[None, None, None]:
        """Raises the error for a connection that breaks or gives no answer in time."""
        lost = OutcomeUnknown if commits else Unavailable
        try:
            # `trio.fail_after` would take twice as long, for each flight.
            with trio.CancelScope(deadline=trio.current_time() + self._patience) as waited:
                yield
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, ProtocolError) as error:
            raise lost(f"the connection was lost: {error} (2013)", 2013) from error
        if waited.cancelled_caught:
            self.silent = True
            raise lost(f"the server has not answered for {self._patience:g} s (2013)", 2013)


async def connect(dsn: Dsn, *, write: bool, timeout: float = 5.0) -> Connection:
    """A new session, ready for work. Raises `Unavailable` after `timeout` seconds at the latest."""
    wire = Wire(dsn, timeout, several=write)
    try:
        # Fault 7: around everything, as a server may take the connection and never speak.
        with trio.fail_after(timeout):
            await wire.connect()
            connection = Connection(wire)
            try:
                await connection.set_up("write" if write else "read")
            except Unavailable as error:
                if error.code == _HUNG_UP:
                    await _ask_why(dsn, timeout)
                raise
            wire.ready = True
            return connection
    except trio.TooSlowError as error:
        raise Unavailable(f"{dsn}: no answer within {timeout:g} s", 2013) from error
    except StoreError:
        raise
    except MysqlError as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 2013
        fault = to_store_error(code, str(error.args[-1]) if error.args else repr(error))
        hint = _HINTS.get(code, "")
        if code == _DENIED:
            hint = _TWICE if "@" in dsn.password else ""
            # To a user who must come under TLS, MariaDB says no more than to one with a wrong password.
            hint += "" if dsn.ssl_mode != "DISABLED" or dsn.socket else f"; if it lets in under TLS alone, {_SAY_TLS}"
        fault.args = (f"{dsn}: {fault}{hint}",)
        raise fault from error
    except Exception as error:
        # Any error that trio-mysql raises when something other than a MySQL server answers.
        reason = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
        raise Unavailable(f"{dsn}: cannot log in: {reason!r}", 2012) from error
    finally:
        if not wire.ready:
            wire.quit()


async def _ask_why(dsn: Dsn, timeout: float) -> None:
    """Raises the reason for which a server hung up, if it gives one. Where `init_connect` fails, the server answers the
    first command with that; but if another command is on its way, the connection is reset and the answer is lost."""
    wire = Wire(dsn, timeout, several=False)
    try:
        await wire.connect()
        await Connection(wire).ping()
    except Exception as error:  # any other failure was already reported by the first login
        if isinstance(error, Unavailable) and "init_connect" in str(error):
            raise Unavailable(f"{dsn}: init_connect of the server fails for this user: {error}", error.code) from error
    finally:
        wire.quit()
