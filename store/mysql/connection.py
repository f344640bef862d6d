"""One session with the server. All use of trio-mysql is in this file, and so is the mapping of errors.

trio-mysql 1.0.3 has seen no release since 2021. It is used to log in and to send; `rows` reads the answers. `_Wire`
holds a remedy for each of its faults, numbered here and in the tests:

    1   caching_sha2_password is not awaited, so MySQL 9 lets nobody in          `_CachingSha2`
    2   text comes back as bytes                                                 `use_unicode`; `rows` knows the types
    3   after a cancelled read it reconnects the same object with stale bytes    an object connects once
    4   closing calls a method that streams do not have: the socket leaks        `_force_close`
    5   a cancelled write leaves half a packet sent and the connection "open"    `_write_bytes`
    6   an unread second result is an endless loop                               MULTI_STATEMENTS is never asked for
    7   connect_timeout covers TCP only                                          `connect`
    8   TLS is skipped in silence when the server offers none                    `_get_server_information`
    9   a password beyond Latin-1 cannot be sent                                 it is given as UTF-8 bytes
    10  a server that asks for the password in clear gets it, TLS or not         `_RefuseClear`

A `Connection` that was cancelled or broken in the middle of anything is closed, and stays so.
"""

import os
import re
import select
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

import attrs
import trio

from ..errors import Contention, DuplicateKey, OutcomeUnknown, Refused, StoreError, Unavailable
from .dsn import Dsn
from .rows import Answer, ProtocolError, Row, ServerError

if TYPE_CHECKING:
    # trio-mysql carries no types: this is all of it that is used here, as it is in 1.0.3.
    class _Packet:
        def get_all_data(self) -> bytes: ...
        def read_all(self) -> bytes: ...
        def is_ok_packet(self) -> bool: ...

    class _TrioMysql:
        _sock: "_Stream | None"
        _closed: bool
        _secure: bool
        _rbuf: bytearray
        _rbuf_offset: int
        _next_seq_id: int
        _auth_plugin_name: str
        server_capabilities: int
        client_flag: int
        password: bytes

        def __init__(self, **settings: object) -> None: ...
        async def connect(self) -> None: ...
        async def write_packet(self, payload: bytes) -> None: ...
        async def _read_packet(self) -> _Packet: ...
        async def _get_server_information(self) -> None: ...
        async def _execute_command(self, command: int, sql: bytes) -> None: ...

    class _MysqlError(Exception): ...

    def _scramble(password: bytes, nonce: bytes) -> bytes: ...
    def _encrypt(password: bytes, nonce: bytes, key: bytes) -> bytes: ...
else:
    from trio_mysql._auth import scramble_caching_sha2 as _scramble
    from trio_mysql._auth import sha2_rsa_encrypt as _encrypt
    from trio_mysql.connections import Connection as _TrioMysql
    from trio_mysql.err import MySQLError as _MysqlError

_Stream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]

_COM_QUERY, _COM_PING = 3, 14
_QUIT = b"\x01\x00\x00\x00\x01"
_BEGIN = b"SET autocommit = 0"
_CLIENT_FOUND_ROWS, _CLIENT_SSL, _CLIENT_DEPRECATE_EOF = 1 << 1, 1 << 11, 1 << 24
_READ_BYTES = 1 << 16

WRITE_WAIT_TIMEOUT = 5
READ_WAIT_TIMEOUT = 600
"""Seconds that the server lets a session idle. A writer that is paused or cut off must not keep its row locks."""

# MariaDB makes an IN list of 1000 values or more a join with a temporary table, which locks rows in no order at all;
# with the threshold at 0 it is a range over the key, as on MySQL. With sql_safe_updates a DELETE of MariaDB's goes by
# the key however few rows the table has (a scan would wait for rows of others); on MySQL a hint in the statement does.
# `/*!80000 */` is for MySQL alone, `/*M! */` MariaDB.
_SETTINGS = (
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = '+00:00', autocommit = 1, wait_timeout = {wait},"
    " innodb_lock_wait_timeout = {lock_wait}, sql_mode = 'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,STRICT_ALL_TABLES,"
    "NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
    " /*!80000 , transaction_isolation = 'READ-COMMITTED' */"
    " /*M! , tx_isolation = 'READ-COMMITTED', in_predicate_conversion_threshold = 0, sql_safe_updates = 1 */"
)
_WRITE_SETTINGS = _SETTINGS.format(wait=WRITE_WAIT_TIMEOUT, lock_wait=2).encode()
_READ_SETTINGS = _SETTINGS.format(wait=READ_WAIT_TIMEOUT, lock_wait=10).encode()
_OLDEST = {"mysql": (8, 0), "mariadb": (10, 6)}

# The session is gone, or the server ends it, so that what it was doing may or may not be done. 1317 is a KILL.
_CUT_OFF = frozenset({1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1180, 1184, 1317, 1927, 3169, 4031})
# Full (3, 1021, 1026, 1030, 1114), read-only (1290, 1836), not ready (1047, 3032, 3100, 3168), out of sessions, memory
# or time (the rest): nothing is wrong with the statement, and it is not done.
_UNABLE = frozenset(
    {3, 1021, 1026, 1030, 1037, 1038, 1040, 1041, 1047, 1114, 1129, 1135, 1203, 1226, 1290, 1637, 1836, 1969}
    | {3024, 3032, 3100, 3168}
)
# Deadlock, lock wait, NOWAIT; 1020 is MariaDB's "record has changed", 1412 a table altered since the transaction began,
# 3101 a group replication rollback.
_CONTENTION = frozenset({1020, 1205, 1213, 1412, 1614, 1689, 3058, 3101, 3572})
_DUPLICATE = frozenset({1022, 1062, 1586})
_KEY = re.compile(r"for key '([^']*)'$")


def to_store_error(code: int, message: str) -> StoreError:
    """The server's error in the store's words. What is in no list is the statement's own fault."""
    text = f"{message} ({code})"
    if code in _DUPLICATE:
        found = _KEY.search(message)
        # MySQL says `table.key`, MariaDB `key`.
        return DuplicateKey(text, code, found[1].rpartition(".")[2] if found else None)
    if code in _CONTENTION:
        return Contention(text, code)
    if code in _CUT_OFF or code in _UNABLE or 2000 <= code < 3000:
        return Unavailable(text, code)
    return Refused(text, code)


@attrs.frozen
class Server:
    """Who answers."""

    flavour: Literal["mysql", "mariadb"]
    version: tuple[int, ...]
    text: str


@attrs.frozen
class Done:
    """What a statement that gives no rows did."""

    affected: int
    last_insert_id: int
    """Also what the statement set by LAST_INSERT_ID(...)."""


class Connection:
    """An open session, made by `connect`. One task at a time.

    Any error of `store.errors` may come out of any method. After `Unavailable`, and after a cancel, it is closed.
    Affected rows are the rows that a statement matched (FOUND_ROWS), not those it changed: an UPDATE that sets what is
    there already has found its row all the same, and SQLite counts so too.
    """

    def __init__(self, wire: "_Wire") -> None:
        self._wire = wire
        # Between `begin` and `commit` or `rollback`; the server has been asked something in it.
        self._begun = self._asked = False
        # For good from the first `begin` on: after a deadlock has ended a transaction, no statement that is already on
        # its way can be committed by itself.
        self._autocommit = True
        # The server may have rolled back by itself: the next statement would be committed on its own.
        self._must_roll_back = False
        self.server = Server("mysql", (), "")
        self.id = 0
        """The server's number of the session, for KILL."""
        self.max_allowed_packet = 1 << 20

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
        """The longest statement in bytes, for `Statement.bind_many`. For a byte more the server cuts the connection."""
        return self.max_allowed_packet - 2

    def is_stale(self) -> bool:
        """Closed, or the server has said something unasked, as it does only to hang up. Costs no round trip."""
        return self._wire.closed or self._wire.is_readable()

    async def execute(self, sql: bytes) -> int:
        """Runs a statement that gives no rows; returns how many rows it matched.

        Outside a transaction it commits by itself, so a connection lost meanwhile is `OutcomeUnknown`.
        """
        return _done(await self._ask(sql, commits=not self._begun), sql).affected

    async def execute_all(self, statements: Sequence[bytes]) -> list[Done]:
        """Runs statements of a transaction one after the other, without waiting for an answer in between.

        When one fails, those behind it have been tried all the same: roll back.
        """
        if not self._begun:
            raise RuntimeError("begin a transaction first")
        answers = await self._ask_all(statements)
        return [_done(answer, sql) for answer, sql in zip(answers, statements, strict=True)]

    async def fetch(self, sql: bytes) -> list[Row]:
        """The rows of a query."""
        return (await self._ask(sql)).rows

    async def begin(self) -> None:
        """Begins a transaction with the next statement, which costs no round trip.

        From the first on the session does nothing outside of transactions.
        """
        if self._must_roll_back:
            raise RuntimeError("ROLLBACK first: a deadlock has ended the transaction")
        self._begun = True

    async def commit(self) -> None:
        """`OutcomeUnknown` when the answer does not come. Run it where no request's cancel scope can reach it."""
        if self._asked:  # or else there is nothing to commit
            await self._ask(b"COMMIT", commits=True)
        self._begun = self._asked = False

    async def rollback(self) -> None:
        """A connection that is lost or gets lost here is as good as rolled back, so that is no error."""
        self._must_roll_back = False
        if self._asked and not self.closed:
            with suppress(Unavailable):
                await self._ask(b"ROLLBACK")
        self._begun = self._asked = False

    async def ping(self) -> None:
        """`Unavailable` when the server is away."""
        await self._ask(b"", command=_COM_PING)

    def close(self) -> None:
        """Never blocks, never raises. An open transaction is rolled back by the server."""
        self._wire.quit()

    async def _ask(self, sql: bytes, *, commits: bool = False, command: int = _COM_QUERY) -> Answer:
        (answer,) = await self._ask_all([sql], commits=commits, command=command)
        return answer

    async def _ask_all(
        self, statements: Sequence[bytes], *, commits: bool = False, command: int = _COM_QUERY
    ) -> list[Answer]:
        if self.closed:
            raise Unavailable("the connection is closed", 2006)
        if self._must_roll_back:
            raise RuntimeError("ROLLBACK first: a deadlock has ended the transaction")
        if not (self._begun or self._autocommit or command == _COM_PING):
            raise RuntimeError("begin a transaction first: this session commits nothing by itself any more")
        for sql in statements:
            if len(sql) > self.max_statement:
                # The server would cut the connection, which looks like an outage that a retry may mend.
                raise Refused(f"a statement of {len(sql)} bytes; the server takes {self.max_statement}", 1153)
        begins = [_BEGIN] if self._begun and self._autocommit else []
        self._asked = self._begun
        try:
            answers = await self._wire.ask(command, [*begins, *statements])
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, ProtocolError) as error:
            lost = OutcomeUnknown if commits else Unavailable
            raise lost(f"the connection was lost: {error} (2013)", 2013) from error
        for answer in answers:
            if answer.error is not None:
                self._raise(answer.error, commits=commits)
        if begins:
            self._autocommit = False
        return answers[len(begins) :]

    def _raise(self, error: ServerError, *, commits: bool) -> NoReturn:
        fault = to_store_error(error.code, error.message)
        if error.unasked or isinstance(fault, Unavailable) or error.code == 1153:
            self._wire.quit()
        if commits and (error.unasked or error.code in _CUT_OFF):
            raise OutcomeUnknown(str(fault), error.code)
        if error.unasked and not isinstance(fault, Unavailable):
            raise Unavailable(str(fault), error.code)
        self._must_roll_back = self._begun and isinstance(fault, Contention)
        raise fault


def _done(answer: Answer, sql: bytes) -> Done:
    if answer.columns:
        raise ValueError(f"the statement gives rows, use fetch: {sql[:100]!r}")
    return Done(answer.affected, answer.last_insert_id)


async def connect(dsn: Dsn, *, write: bool, timeout: float = 5.0) -> Connection:
    """A new session, ready for work. `Unavailable` after `timeout` seconds at the latest."""
    wire = _Wire(dsn, timeout)
    try:
        # Fault 7: around everything, as a server may take the connection and never speak.
        with trio.fail_after(timeout):
            await wire.connect()
            connection = Connection(wire)
            await _set_up(connection, write=write)
            wire.ready = True
            return connection
    except trio.TooSlowError as error:
        raise Unavailable(f"{dsn}: no answer within {timeout:g} s", 2013) from error
    except StoreError:
        raise
    except _MysqlError as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 2013
        fault = to_store_error(code, str(error.args[-1]) if error.args else repr(error))
        fault.args = (f"{dsn}: {fault}",)
        raise fault from error
    except Exception as error:
        # Whatever trio-mysql trips over when it is not a MySQL server that answers.
        reason = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
        raise Unavailable(f"{dsn}: cannot log in: {reason!r}", 2012) from error
    finally:
        if not wire.ready:
            wire.quit()


async def _set_up(connection: Connection, *, write: bool) -> None:
    await connection.execute(_WRITE_SETTINGS if write else _READ_SETTINGS)
    ((connection.id, text, connection.max_allowed_packet),) = await connection.fetch(
        b"SELECT CONNECTION_ID(), VERSION(), @@max_allowed_packet"
    )
    flavour: Literal["mysql", "mariadb"] = "mariadb" if "mariadb" in text.lower() else "mysql"
    version = tuple(int(number) for number in re.findall(r"\d+", text)[:3])
    if version < _OLDEST[flavour]:
        raise Refused(f"the server is {flavour} {text}: Tarry needs MySQL 8.0 or MariaDB 10.6 at the least")
    connection.server = Server(flavour, version, text)


@lru_cache(4)
def _trust(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise Refused(f"ca={ca}: no certificates could be read ({error})") from error


class _CachingSha2:
    """Fault 1. The login of MySQL 8+: a hash if the server remembers the password, else the password, sealed by TLS or
    by the server's RSA key."""

    def __init__(self, wire: "_Wire") -> None:
        self._wire = wire

    async def authenticate(self, request: "_Packet") -> "_Packet":
        wire = self._wire
        # 20 bytes and a NUL, which is not part of it.
        nonce = request.read_all()[:20]
        packet = await wire.exchange(_scramble(wire.password, nonce))
        if packet.is_ok_packet():
            return packet
        verdict = packet.get_all_data()
        if verdict == b"\x01\x03":
            return await wire.exchange(None)
        if verdict != b"\x01\x04":
            raise ProtocolError(f"caching_sha2_password: {verdict!r}")
        if wire.sealed:
            return await wire.exchange(wire.password + b"\0")
        key = (await wire.exchange(b"\x02")).get_all_data()[1:]
        return await wire.exchange(_encrypt(wire.password, nonce, key))


class _RefuseClear:
    """Fault 10. Whoever sits between could ask for the password and would get it."""

    def __init__(self, wire: "_Wire") -> None:
        self._wire = wire

    async def authenticate(self, request: "_Packet") -> "_Packet":
        if not self._wire.sealed:
            raise Refused("the server asks for the password in clear: use tls=verify, or another account", 2061)
        return await self._wire.exchange(self._wire.password + b"\0")


class _Wire(_TrioMysql):
    """trio-mysql's connection with the remedies."""

    def __init__(self, dsn: Dsn, timeout: float) -> None:
        self._wants_tls = dsn.tls
        self._spent = False
        # A statement is on its way, or its answer.
        self._busy = False
        # Logged in and set up.
        self.ready = False
        super().__init__(
            user=dsn.user,
            password=dsn.password.encode(),  # fault 9
            host=dsn.host,
            port=dsn.port,
            unix_socket=dsn.socket,
            database=dsn.database,
            charset="utf8mb4",
            use_unicode=True,  # fault 2
            autocommit=None,
            client_flag=_CLIENT_FOUND_ROWS,  # fault 6: and nothing else
            connect_timeout=timeout,
            ssl=_trust(dsn.ca) if dsn.tls else None,
            auth_plugin_map={
                "caching_sha2_password": _CachingSha2,
                "mysql_clear_password": _RefuseClear,
                "dialog": _RefuseClear,
            },
            program_name="tarry",
        )

    @property
    def closed(self) -> bool:
        return self._sock is None

    @property
    def sealed(self) -> bool:
        """TLS or a Unix socket: nobody listens."""
        return self._secure

    def is_readable(self) -> bool:
        poll = select.poll()
        poll.register(self._socket().fileno(), select.POLLIN)
        return bool(poll.poll(0))

    async def connect(self) -> None:
        # Fault 3: bytes of the former life may be in the buffer, also by way of `ping`.
        if self._spent:
            raise RuntimeError("a connection is not used again: make a new one")
        self._spent = True
        await super().connect()
        if self._rbuf_offset != len(self._rbuf):
            raise ProtocolError("bytes after the login")
        own = self._socket()
        if own.family != socket.AF_UNIX:
            # A server that vanishes without a word is noticed in half a minute, not in hours.
            for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
                own.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)

    async def exchange(self, payload: bytes | None) -> "_Packet":
        """Sends a packet of the login, if there is one to send, and reads the next; raises for an ERR."""
        if payload is not None:
            await self.write_packet(payload)
        return await self._read_packet()

    async def ask(self, command: int, payloads: Sequence[bytes]) -> list[Answer]:
        """Sends commands, and then reads the answers, to their end, with one await to a read of the socket.

        After a command that the server refused, those behind it are carried out all the same.
        """
        stream = self._stream()
        self._busy = True
        deprecate_eof = bool(self.client_flag & _CLIENT_DEPRECATE_EOF)
        answers: list[Answer] = []
        try:
            for payload in payloads:
                await self._execute_command(command, payload)
                followed = len(answers) + 1 < len(payloads)
                answers.append(Answer(sequence=self._next_seq_id, deprecate_eof=deprecate_eof, followed=followed))
            rest = b""
            for answer in answers:
                while not answer.feed(rest or await self._receive(stream)):
                    rest = b""
                rest = answer.take_rest()
                if answer.error is not None and answer.error.unasked:
                    return [answer]
        except BaseException:
            self._force_close()
            raise
        self._busy = False
        return answers

    def quit(self) -> None:
        """Closes; says so if that can be said without waiting, or the server's log complains."""
        if self.ready and not self._busy and isinstance(self._sock, trio.SocketStream):
            with suppress(OSError):
                os.write(self._sock.socket.fileno(), _QUIT)
        self._force_close()

    def _stream(self) -> _Stream:
        if self._sock is None:
            raise trio.ClosedResourceError("closed")
        return self._sock

    def _socket(self) -> trio.socket.SocketType:
        stream = self._stream()
        return (stream if isinstance(stream, trio.SocketStream) else stream.transport_stream).socket

    async def _receive(self, stream: _Stream) -> bytes:
        data = await stream.receive_some(_READ_BYTES)
        if not data:
            raise trio.BrokenResourceError("the server hung up")
        return bytes(data)

    async def _get_server_information(self) -> None:
        await super()._get_server_information()
        if self._wants_tls:
            # Fault 8. And what was said in clear must not be taken for what comes under TLS.
            if not self.server_capabilities & _CLIENT_SSL:
                raise Unavailable("the server offers no TLS: set it up there, or say tls=off", 2026)
            if self._rbuf_offset != len(self._rbuf):
                raise ProtocolError("bytes between the greeting and TLS")
        if self._auth_plugin_name != "mysql_native_password":
            # Fault 1: with no name the server asks for its method, and then `auth_plugin_map` is heeded.
            self._auth_plugin_name = ""
        self.client_flag |= self.server_capabilities & _CLIENT_DEPRECATE_EOF

    async def _write_bytes(self, data: bytes) -> None:
        # Fault 5.
        try:
            await self._stream().send_all(data)
        except BaseException:
            self._force_close()
            raise

    def _force_close(self) -> None:
        # Fault 4. Also called by the garbage collector, before __init__ has come far and after trio has ended.
        stream: _Stream | None = getattr(self, "_sock", None)
        self._sock = None
        self._closed = True
        if stream is None:
            return
        own = (stream if isinstance(stream, trio.SocketStream) else stream.transport_stream).socket
        try:
            own.close()
        except RuntimeError:
            with suppress(OSError):
                os.close(own.detach())

    __del__ = _force_close
