import gc
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from support import servers
from support.at_once import at_once
from tarry.store.errors import (
    Contention,
    DuplicateKey,
    Full,
    Locked,
    OutcomeUnknown,
    ReadOnly,
    Refused,
    StoreError,
    Unavailable,
    Unfit,
)
from tarry.store.mysql import connection as module
from tarry.store.mysql import wire
from tarry.store.mysql.connection import Connection, connect
from tarry.store.mysql.dsn import Dsn, SslMode
from tarry.store.mysql.errors import to_store_error
from tarry.store.mysql.rows import Answer, ServerError

Open = Callable[..., Awaitable[Connection]]


@pytest.fixture
async def other(open_connection: Open) -> Connection:
    return await open_connection()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@asynccontextmanager
async def listener(serve: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncIterator[Dsn]:
    """A server that is none."""
    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(trio.serve_tcp, serve, 0)
        port = listeners[0].socket.getsockname()[1]
        yield Dsn(user="u", password="geheim", host="127.0.0.1", port=port, database="d")
        nursery.cancel_scope.cancel()


def packet(number: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


def greeting(capabilities: int) -> bytes:
    payload = b"\x0a9.9.9\x00" + bytes(4) + b"12345678\x00" + (capabilities & 0xFFFF).to_bytes(2, "little")
    payload += b"\x2d\x02\x00" + (capabilities >> 16).to_bytes(2, "little") + b"\x15" + bytes(10) + b"123456789012\x00"
    return packet(0, payload + b"caching_sha2_password\0")


# The faults of trio-mysql, by their numbers in connection.py.


@pytest.mark.parametrize("password", ["", "pa:ss/word", "пароль"])
async def test_fault_1_and_9_login_by_password_and_by_hash(
    mysql_dsn: str, open_connection: Open, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    sealed: list[bytes] = []
    encrypt = wire._encrypt

    def count(secret: bytes, nonce: bytes, key: bytes) -> bytes:
        sealed.append(key)
        return encrypt(secret, nonce, key)

    monkeypatch.setattr(wire, "_encrypt", count)
    dsn = Dsn.parse(mysql_dsn)
    user = f"u_{dsn.database[-8:]}"
    servers.run_sql(
        mysql_dsn,
        f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'",
        f"GRANT ALL ON {dsn.database}.* TO {user}@'%'",
        "FLUSH PRIVILEGES",
    )
    try:
        # MySQL knows nothing of the password but a slow hash at first: the password is sent, sealed with RSA. Then it
        # remembers a quick one.
        for _ in range(2):
            connection = await open_connection(attrs.evolve(dsn, user=user, password=password))
            assert await connection.fetch(b"SELECT DATABASE()") == [(dsn.database,)]
            assert len(sealed) == (1 if password and connection.server.flavour == "mysql" else 0)
        with pytest.raises(Refused) as caught:
            await open_connection(attrs.evolve(dsn, user=user, password="wrong"))
        assert caught.value.code == 1045
        assert user in str(caught.value)
        assert "wrong" not in str(caught.value)
    finally:
        servers.run_sql(mysql_dsn, f"DROP USER {user}@'%'")


async def test_fault_1_login_over_a_socket(mysql_dsn: str, open_connection: Open) -> None:
    ((path,),) = servers.run_sql(mysql_dsn, "SELECT @@socket")
    if not await trio.Path(str(path)).is_socket():
        pytest.skip("the server is on another machine")
    dsn = attrs.evolve(Dsn.parse(mysql_dsn), host="", socket=str(path))
    assert await (await open_connection(dsn)).fetch(b"SELECT 1") == [(1,)]


async def test_fault_2_text_is_str(connection: Connection) -> None:
    await connection.execute(
        b"CREATE TABLE t (a VARCHAR(9) CHARACTER SET utf8mb4, b VARBINARY(9), c TEXT CHARACTER SET latin1, d BLOB,"
        b" e DOUBLE, f BIT(9), g DECIMAL(9, 2), h DATETIME(3), i ENUM('x') CHARACTER SET utf8mb4, j BIGINT UNSIGNED,"
        b" k TINYINT)"
    )
    await connection.execute(
        "INSERT INTO t VALUES ('é😀', 'é', 'é', 'é', 0.5, 258, 1.5, '2026-11-21 01:02:03.004', 'x',"
        " 18446744073709551615, -1), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)".encode()
    )
    text, binary = "é", "é".encode()
    rows = await connection.fetch(b"SELECT * FROM t ORDER BY k DESC")
    assert [repr(value) for value in rows[0]] == [
        repr("é😀"),
        repr(binary),
        repr(text),
        repr(binary),
        "0.5",
        "258",
        "Decimal('1.50')",
        "'2026-11-21 01:02:03.004'",
        "'x'",
        "18446744073709551615",
        "-1",
    ]
    assert rows[1] == (None,) * 11
    assert await connection.fetch(b"SELECT SUM(j), SUM(k), COUNT(*), AVG(e), VERSION() > '', x'' FROM t") == [
        (2**64 - 1, -1, 2, 0.5, 1, b"")
    ]


async def test_fault_3_a_cancelled_read_closes_for_good(connection: Connection) -> None:
    with trio.move_on_after(0.05) as scope:
        await connection.fetch(b"SELECT SLEEP(5)")
    assert scope.cancelled_caught
    assert connection.closed
    with pytest.raises(Unavailable, match="closed"):
        await connection.fetch(b"SELECT 1")
    with pytest.raises(RuntimeError, match="make a new one"):
        await connection._wire.connect()


async def test_fault_4_no_socket_leaks(dsn: Dsn) -> None:
    async def open_and_close() -> None:
        (await connect(dsn, write=True)).close()
        cancelled = await connect(dsn, write=True)
        with trio.move_on_after(0.01):
            await cancelled.fetch(b"SELECT SLEEP(5)")
        with pytest.raises(Refused):
            await connect(attrs.evolve(dsn, user="nobody", password="x"), write=True)
        with pytest.raises(Refused):
            await connect(attrs.evolve(dsn, database="nowhere"), write=True)
        with trio.move_on_after(0.0005):
            (await connect(dsn, write=True)).close()

    await open_and_close()
    before = open_files()
    for _ in range(3):
        await open_and_close()
    assert open_files() == before


def test_fault_4_a_forgotten_connection_leaves_no_socket(mysql_dsn: str) -> None:
    async def forget() -> list[Connection]:
        return [await connect(Dsn.parse(mysql_dsn), write=True)]

    trio.run(trio.sleep, 0)
    before = open_files()
    forgotten = trio.run(forget)
    assert open_files() == before + 1
    forgotten.clear()
    gc.collect()
    assert open_files() == before


@pytest.mark.parametrize("what", ["statement", "packet"])
async def test_fault_5_a_cancelled_write_closes(line: servers.Line, open_connection: Open, what: str) -> None:
    connection = await open_connection(Dsn.parse(line.dsn))
    line.stop()
    async with trio.open_nursery() as nursery:
        write = connection.execute if what == "statement" else connection._wire.write_packet
        nursery.start_soon(write, b"SELECT x'" + b"00" * 7_000_000 + b"'")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert connection.closed


@pytest.mark.parametrize("statement", [b"SELECT 1; SELECT 2", b"SET @a = 1; SELECT 2"])
async def test_fault_6_one_statement_at_a_time(open_connection: Open, statement: bytes) -> None:
    reader, writer = await open_connection(write=False), await open_connection()
    with pytest.raises(Refused) as caught:
        await reader.fetch(statement)
    assert caught.value.code == 1064
    assert await reader.fetch(b"SELECT 1") == [(1,)]
    with pytest.raises(Unavailable, match="more than one result"):
        await writer.fetch(statement)
    assert writer.closed


async def test_fault_6_a_procedure_has_two_results_and_closes(connection: Connection) -> None:
    await connection.execute(b"CREATE PROCEDURE p() SELECT 1")
    with pytest.raises(Unavailable, match="more than one result"):
        await connection.fetch(b"CALL p()")
    assert connection.closed


async def test_fault_7_a_server_that_never_speaks() -> None:
    async def be_silent(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with listener(be_silent) as dsn:
        before = open_files()
        with trio.fail_after(5), pytest.raises(Unavailable, match=r"no answer within 0\.05 s"):
            await connect(dsn, write=True, timeout=0.05)
        # The listener's own end is still open.
        assert open_files() <= before + 1


async def test_fault_8_tls_that_the_server_does_not_offer() -> None:
    heard = b""

    async def greet(stream: trio.SocketStream) -> None:
        nonlocal heard
        await stream.send_all(greeting(0x000FA2FF & ~0x800))
        async for data in stream:
            heard += data

    for mode in ("REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"):
        async with listener(greet) as dsn:
            with pytest.raises(Unavailable, match="offers no TLS"):
                await connect(attrs.evolve(dsn, ssl_mode=mode), write=True)
        assert heard == b""
    async with listener(greet) as dsn:
        with pytest.raises(Unavailable):
            await connect(attrs.evolve(dsn, ssl_mode="PREFERRED"), write=True, timeout=0.2)
    assert heard, "it would have gone on without"


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog"])
async def test_fault_10_the_password_is_not_sent_in_clear(plugin: bytes) -> None:
    heard = b""

    async def ask(stream: trio.SocketStream) -> None:
        nonlocal heard
        await stream.send_all(greeting(0x000FA2FF))
        heard += await stream.receive_some()
        await stream.send_all(packet(2, b"\xfe" + plugin + b"\0" + b"\x02Password: "))
        async for data in stream:
            heard += data

    async with listener(ask) as dsn:
        with pytest.raises(Refused, match="in clear"):
            await connect(dsn, write=True)
    assert heard
    assert b"geheim" not in heard


@pytest.mark.parametrize(
    ("plugin", "match"),
    [
        (b"client_ed25519", r"client_ed25519, for which Tarry needs the package pynacl .*let it in by another"),
        (b"parsec", r"parsec, which Tarry does not know: let it in by another"),
        (b"auth_gssapi_client", "auth_gssapi_client, which"),
        (b"authentication_webauthn_client", "authentication_webauthn_client, which"),
        (b"", ", which Tarry does not know"),
    ],
)
async def test_fault_11_a_way_to_log_in_that_is_not_known(plugin: bytes, match: str) -> None:
    """Nobody waits for the server to change its mind."""

    async def ask(stream: trio.SocketStream) -> None:
        await stream.send_all(greeting(0x000FA2FF))
        await stream.receive_some()
        await stream.send_all(packet(2, b"\xfe" + plugin + b"\0" + b"0" * 32))
        async for _ in stream:
            pass

    async with listener(ask) as dsn:
        with pytest.raises(Unfit, match=match):
            await connect(dsn, write=True)


# Getting in.


async def test_nobody_listens() -> None:
    dsn = Dsn(user="u", host="127.0.0.1", port=servers.free_port(), database="d")
    with pytest.raises(Unavailable, match="u@127"):
        await connect(dsn, write=True)


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x05\0\0\0\x0anope", b"", b"\x01\0\0\0\x0a"])
async def test_something_else_listens(said: bytes) -> None:
    async def say(stream: trio.SocketStream) -> None:
        await stream.send_all(said)

    async with listener(say) as dsn:
        with pytest.raises(Unavailable):
            await connect(dsn, write=True)


async def test_what_a_server_says_to_the_first_command_is_heard() -> None:
    """To whoever asks two things at once it says it, too, and the line is reset before it is read."""

    async def say_no(stream: trio.SocketStream) -> None:
        await stream.send_all(greeting(0x000FA2FF))
        await stream.receive_some()
        await stream.send_all(packet(2, b"\0\0\0\x02\0\0\0"))
        if len(await stream.receive_some()) == 5:  # a ping and nothing behind it
            said = b"\xff\xa0\x04#08S01Aborted connection 7 (init_connect command failed)"
            await stream.send_all(packet(1, said))

    async with listener(say_no) as dsn:
        with pytest.raises(Unavailable, match="init_connect of the server fails for this user") as caught:
            await connect(dsn, write=True)
    assert caught.value.code == 1184


@pytest.mark.parametrize("state", [b"#08004", b""])
async def test_a_server_that_is_full(state: bytes) -> None:
    """Before the greeting a server names no SQL state."""

    async def refuse(stream: trio.SocketStream) -> None:
        await stream.send_all(packet(0, b"\xff\x10\x04" + state + b"Too many connections"))

    async with listener(refuse) as dsn:
        with pytest.raises(Unavailable, match="Too many connections") as caught:
            await connect(dsn, write=True)
    assert caught.value.code == 1040


async def test_the_session_is_set_up(open_connection: Open) -> None:
    writer, reader = await open_connection(), await open_connection(write=False)
    isolation = "transaction_isolation" if writer.server.flavour == "mysql" else "tx_isolation"
    query = (
        f"SELECT @@{isolation}, @@autocommit, @@time_zone, @@wait_timeout, @@net_read_timeout, @@net_write_timeout,"
        " @@innodb_lock_wait_timeout, @@character_set_client, @@character_set_connection, @@character_set_results,"
        " @@collation_connection,"
        " @@sql_mode LIKE '%STRICT_ALL_TABLES%', CONNECTION_ID(), @@max_allowed_packet"
    ).encode()
    for connection, wait, rest, lock_wait in ((writer, 2, 2, 1), (reader, 600, 60, 10)):
        assert await connection.fetch(query) == [
            (
                "READ-COMMITTED",
                1,
                "+00:00",
                wait,
                rest,
                rest,
                lock_wait,
                "utf8mb4",
                "utf8mb4",
                "utf8mb4",
                "utf8mb4_bin",
                1,
                connection.id,
                connection.max_allowed_packet,
            )
        ]
    assert writer.server.text.startswith(".".join(map(str, writer.server.version)))
    assert repr(writer) == f"<Connection {writer.id} open {writer.server.text}>"
    own = writer._wire._socket()
    assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


async def test_an_old_server_is_refused(dsn: Dsn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OLDEST", {"mysql": (99,), "mariadb": (99,)})
    with pytest.raises(Unfit, match="at the least"):
        await connect(dsn, write=True)


@pytest.mark.parametrize("said", ["Unknown system variable 'time_zone'", "Unknown variable: time_zone"])
async def test_an_engine_that_knows_too_little_is_refused(dsn: Dsn, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """One that lacks what every MySQL has, and may say so in words of its own."""

    async def lacking(*_: object, **__: object) -> None:
        raise to_store_error(1193, said)

    monkeypatch.setattr(Connection, "ask_all", lacking)
    monkeypatch.setattr(module, "_LACKING", {})
    with pytest.raises(Unfit, match=r"the server \(.*\) lacks what Tarry's sessions set: .*time_zone.*at the least"):
        await connect(dsn, write=True)


async def test_tls(dsn: Dsn, open_connection: Open) -> None:
    for mode in ("VERIFY_CA", "VERIFY_IDENTITY"):
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await connect(attrs.evolve(dsn, ssl_mode=mode), write=True)
    with pytest.raises(Refused, match="no certificates"):
        await connect(attrs.evolve(dsn, ssl_mode="VERIFY_CA", ssl_ca="/nowhere.pem"), write=True)
    before = open_files()
    unverified: tuple[SslMode, ...] = ("PREFERRED", "REQUIRED")
    for mode in unverified:
        connection = await open_connection(attrs.evolve(dsn, ssl_mode=mode))
        ((_, cipher),) = await connection.fetch(b"SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        assert cipher
        assert await connection.fetch(b"SELECT REPEAT('x', 1000000)") == [("x" * 1_000_000,)]
        assert not connection.is_stale()
        connection.close()
    assert open_files() == before


async def test_tls_with_an_authority_of_our_own(mariadb_server: str) -> None:
    ((ca,),) = servers.run_sql(mariadb_server, "SELECT @@ssl_ca")
    if not ca or not await trio.Path(str(ca)).is_file():
        pytest.skip("a server that is not the tests' own")
    other_name = mariadb_server.replace("127.0.0.1", "localhost")
    for text in (
        f"{mariadb_server}?ssl_ca={ca}",
        f"{mariadb_server}?ssl_mode=VERIFY_CA&ssl_ca={ca}",
        f"{other_name}?ssl_mode=VERIFY_CA&ssl_ca={ca}",
        f"{other_name}?ssl_mode=REQUIRED",
    ):
        connection = await connect(Dsn.parse(text), write=True)
        assert await connection.fetch(b"SELECT 1") == [(1,)]
        connection.close()
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await connect(Dsn.parse(f"{other_name}?ssl_ca={ca}"), write=True)


# Statements and their answers.


async def test_affected_rows_are_those_found(connection: Connection) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    assert await connection.execute(b"INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)") == 3
    assert await connection.execute(b"UPDATE t SET b = 2 WHERE a > 0") == 3
    assert await connection.execute(b"UPDATE t SET b = 2 WHERE a = 9") == 0
    assert await connection.execute(b"DELETE FROM t WHERE a > 1") == 2
    assert await connection.fetch(b"SELECT a FROM t WHERE a > 1") == []
    assert await connection.fetch(b"DO 1") == []


async def test_execute_is_not_for_queries(connection: Connection) -> None:
    with pytest.raises(ValueError, match="use fetch"):
        await connection.execute(b"SELECT 1")
    assert await connection.fetch(b"SELECT 1") == [(1,)]


async def test_many_rows(connection: Connection) -> None:
    await connection.execute(b"CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT)")
    for start in range(0, 20_000, 10_000):
        values = b",".join(b"(%d,%d)" % (number, -number) for number in range(start, start + 10_000))
        await connection.execute(b"INSERT INTO t VALUES " + values)
    assert await connection.fetch(b"SELECT * FROM t ORDER BY a") == [(number, -number) for number in range(20_000)]


@pytest.mark.parametrize("size", [0xFFFFFF - 5, 0xFFFFFF - 4, 0xFFFFFF - 3, 0x1000000])
async def test_long_cells(connection: Connection, size: int) -> None:
    assert await connection.fetch(b"SELECT REPEAT(x'ff', %d), 7" % size) == [(b"\xff" * size, 7)]
    assert await connection.fetch(b"SELECT 1") == [(1,)]


async def test_a_row_of_more_than_16_mb(connection: Connection) -> None:
    ((first, second),) = await connection.fetch(b"SELECT REPEAT('a', 9000000), REPEAT('b', 9000000)")
    assert (first, second) == ("a" * 9_000_000, "b" * 9_000_000)


async def test_the_longest_statement(connection: Connection) -> None:
    def padded(length: int) -> bytes:
        return b"SELECT 1".ljust(length)

    for length in (0xFFFFFF - 2, 0xFFFFFF - 1, 0xFFFFFF, connection.max_statement):
        if length <= connection.max_statement:
            assert await connection.fetch(padded(length)) == [(1,)]
    with pytest.raises(Refused, match="bytes") as caught:
        await connection.fetch(padded(connection.max_statement + 1))
    assert caught.value.code == 1153
    assert await connection.fetch(b"SELECT 1") == [(1,)]


@pytest.mark.parametrize("deprecate_eof", [True, False])
async def test_both_ways_to_end_a_result(
    open_connection: Open, monkeypatch: pytest.MonkeyPatch, deprecate_eof: bool
) -> None:
    if not deprecate_eof:
        monkeypatch.setattr(wire, "_CLIENT_DEPRECATE_EOF", 0)
    connection = await open_connection()
    assert bool(connection._wire.client_flag & 1 << 24) is deprecate_eof
    assert await connection.fetch(b"SELECT 1 UNION SELECT 2") == [(1,), (2,)]
    assert await connection.fetch(b"SELECT 1 FROM DUAL WHERE FALSE") == []
    await connection.begin()
    assert await connection.fetch(b"SELECT 1") == [(1,)]
    assert connection.in_transaction
    with pytest.raises(Refused):
        # The error comes with the third row.
        await connection.fetch(b"SELECT EXP(a) FROM (SELECT 1 AS a UNION ALL SELECT 2 UNION ALL SELECT 710) AS t")
    await connection.rollback()
    await connection.begin()
    assert await connection.fetch(b"SELECT 3") == [(3,)]
    await connection.rollback()


async def test_a_transaction(connection: Connection, other: Connection) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY)")
    await connection.begin()
    assert connection.in_transaction
    await connection.execute(b"INSERT INTO t VALUES (1)")
    assert await other.fetch(b"SELECT * FROM t") == []
    await connection.rollback()
    assert not connection.in_transaction
    await connection.begin()
    await connection.execute(b"INSERT INTO t VALUES (2)")
    await connection.commit()
    assert not connection.in_transaction
    assert await other.fetch(b"SELECT * FROM t") == [(2,)]
    await other.ping()


async def test_a_long_list_is_a_range_on_both_servers(connection: Connection) -> None:
    await connection.execute(b"CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (a, b))")
    values = b",".join(b"(%d,%d,0)" % (number % 16, number) for number in range(5000))
    await connection.execute(b"INSERT INTO t VALUES " + values)
    await connection.fetch(b"ANALYZE TABLE t")
    pairs = b",".join(b"(%d,%d)" % (number % 16, number) for number in range(1500))
    form = b"FORMAT=TRADITIONAL " if connection.server.flavour == "mysql" else b""
    plan = await connection.fetch(
        b"EXPLAIN " + form + b"SELECT * FROM t FORCE INDEX (PRIMARY) WHERE (a, b) IN (" + pairs + b") FOR UPDATE"
    )
    assert len(plan) == 1
    assert "range" in plan[0]


# Errors.


async def test_the_database_refuses(connection: Connection) -> None:
    await connection.execute(
        b"CREATE TABLE t (a INT NOT NULL, b VARBINARY(3), UNIQUE KEY udx_multi_ab (a, b), PRIMARY KEY (a))"
    )
    await connection.execute(b"INSERT INTO t VALUES (1, 'x')")
    for values, code in (
        (b"(2, 'long')", 1406),
        (b"(NULL, 'x')", 1048),
        (b"(99999999999, 'x')", 1264),
        (b"('one', 'x')", 1366),
        (b"(1)", 1136),
        (b"(", 1064),
    ):
        with pytest.raises(Refused) as caught:
            await connection.execute(b"INSERT INTO t VALUES " + values)
        assert caught.value.code == code
    with pytest.raises(DuplicateKey) as duplicate:
        await connection.execute(b"INSERT INTO t VALUES (1, 'y')")
    assert duplicate.value.code == 1062
    await connection.execute(b"ALTER TABLE t DROP PRIMARY KEY")
    with pytest.raises(DuplicateKey) as duplicate:
        await connection.execute(b"INSERT INTO t VALUES (1, 'x')")
    assert "udx_multi_ab" in str(duplicate.value)
    assert not connection.closed


async def deadlock(
    one: Connection, other: Connection, write: Callable[[Connection, int], Awaitable[None]]
) -> tuple[Connection, Contention]:
    """Each writes a row and then that of the other; returns who lost, and what it was told."""
    await one.execute(b"CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    await one.execute(b"INSERT INTO t VALUES (1, 0), (2, 0)")
    caught: list[tuple[Connection, Contention]] = []

    async def try_to(writer: Connection, key: int) -> None:
        try:
            await write(writer, key)
        except Contention as error:
            caught.append((writer, error))

    for writer, key in ((one, 1), (other, 2)):
        await writer.begin()
        await writer.execute(b"UPDATE t SET b = 1 WHERE a = %d" % key)
    await at_once(partial(try_to, one, 2), partial(try_to, other, 1))
    ((loser, error),) = caught
    return loser, error


async def test_a_deadlock_is_contention_and_wants_a_rollback(connection: Connection, other: Connection) -> None:
    async def write(writer: Connection, key: int) -> None:
        await writer.execute(b"UPDATE t SET b = 1 WHERE a = %d" % key)

    loser, error = await deadlock(connection, other, write)
    assert error.code == 1213
    for method in (loser.commit, loser.begin):
        with pytest.raises(RuntimeError, match="ROLLBACK first"):
            await method()
    with pytest.raises(RuntimeError, match="ROLLBACK first"):
        await loser.execute(b"INSERT INTO t VALUES (3, 0)")
    await loser.rollback()
    await loser.begin()
    assert await loser.fetch(b"SELECT a FROM t WHERE a = 3") == []
    await loser.commit()


@pytest.mark.parametrize(("cluster", "kind"), [(None, Contention), (module.GALERA, OutcomeUnknown)])
async def test_a_deadlock_at_commit_is_no_verdict_of_a_galera(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, cluster: module.Cluster | None, kind: type[StoreError]
) -> None:
    """It says so, too, when it was cut off in the middle of it."""
    connection.cluster = cluster
    await connection.begin()
    await connection.fetch(b"SELECT 1")

    async def cut_off(_: list[bytes]) -> list[Answer]:
        answer = Answer()
        answer.error = ServerError(1213, "Deadlock found", unasked=False)
        return [answer]

    monkeypatch.setattr(connection._wire, "ask_as_one", cut_off)
    with pytest.raises(StoreError) as caught:
        await connection.commit()
    assert type(caught.value) is kind
    assert connection.closed is (kind is OutcomeUnknown)


async def test_statements_in_one_flight(connection: Connection, other: Connection) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    await connection.execute(b"INSERT INTO t VALUES (1, 40), (2, 0)")
    flight = [
        b"UPDATE t SET b = LAST_INSERT_ID(b) + 2 WHERE a = 1",
        b"INSERT INTO t VALUES (LAST_INSERT_ID() + 0, 0), (LAST_INSERT_ID() + 1, 0)",
    ]
    with pytest.raises(RuntimeError, match="begin"):
        await connection.ask_all(flight, write=True)
    for begins_at in (40, 42, 44):
        await connection.begin()
        if begins_at < 44:
            done = await connection.ask_all(flight, write=True)
            await connection.commit()
        else:
            *done, committed = await connection.commit(flight)
            assert committed.affected == 0
        assert [(one.affected, one.last_insert_id) for one in done] == [(1, begins_at), (2, 0)]
        assert not connection.in_transaction
    assert await other.fetch(b"SELECT a FROM t WHERE a > 2 ORDER BY a") == [(number,) for number in range(40, 46)]


@pytest.mark.parametrize("first", [True, False], ids=["at once", "after others"])
@pytest.mark.parametrize("bad", [b"INSERT INTO t VALUES (1)", b"INSERT INTO t VALUES (NULL)", b"nonsense"])
async def test_nothing_is_committed_behind_a_statement_that_fails(
    connection: Connection, other: Connection, bad: bytes, first: bool
) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY)")
    await connection.execute(b"INSERT INTO t VALUES (1)")
    await connection.begin()
    if not first:
        await connection.execute(b"INSERT INTO t VALUES (2)")
    with pytest.raises((DuplicateKey, Refused)):
        await connection.commit([b"INSERT INTO t VALUES (3)", bad, b"INSERT INTO t VALUES (4)"])
    assert connection.in_transaction
    assert await other.fetch(b"SELECT a FROM t") == [(1,)]
    assert (4,) not in await connection.fetch(b"SELECT a FROM t")
    await connection.rollback()
    await connection.begin()
    await connection.commit([b"INSERT INTO t VALUES (5)"])
    assert await other.fetch(b"SELECT a FROM t ORDER BY a") == [(1,), (5,)]


async def test_what_is_too_long_for_one_flight_is_committed_all_the_same(
    connection: Connection, other: Connection
) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY, b LONGBLOB)")
    connection.max_allowed_packet = 4096
    rows = [b"INSERT INTO t VALUES (%d, x'%b')" % (number, b"00" * 1000) for number in range(5)]
    await connection.begin()
    answers = await connection.commit(rows)
    assert [answer.affected for answer in answers] == [1, 1, 1, 1, 1, 0]
    assert await other.fetch(b"SELECT COUNT(*) FROM t") == [(5,)]
    await connection.begin()
    with pytest.raises(DuplicateKey):
        await connection.commit([b"INSERT INTO t VALUES (6, NULL)", *rows])
    await connection.rollback()
    assert await other.fetch(b"SELECT COUNT(*) FROM t") == [(5,)]


@pytest.mark.parametrize("together", [True, False])
async def test_what_flies_behind_a_deadlock_is_not_committed(
    connection: Connection, other: Connection, together: bool
) -> None:
    async def write(writer: Connection, key: int) -> None:
        flight = [b"UPDATE t SET b = 1 WHERE a = %d" % key, b"INSERT INTO t VALUES (%d, 0)" % (key + 10)]
        if together:
            await writer.commit(flight)
        else:
            await writer.ask_all(flight, write=True)
            await writer.commit()

    loser, _ = await deadlock(connection, other, write)
    winner = other if loser is connection else connection
    await loser.rollback()
    await winner.begin()
    ((inserted,),) = await winner.fetch(b"SELECT a FROM t WHERE a > 2")
    assert inserted == (11 if winner is other else 12)
    await winner.rollback()


async def test_a_session_that_has_begun_commits_nothing_by_itself(connection: Connection) -> None:
    await connection.begin()
    await connection.fetch(b"SELECT 1")
    await connection.commit()
    with pytest.raises(RuntimeError, match="begin"):
        await connection.fetch(b"SELECT 1")
    await connection.ping()


async def test_a_lock_that_is_held_is_contention(connection: Connection, other: Connection) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY)")
    await connection.execute(b"INSERT INTO t VALUES (1)")
    await connection.begin()
    await connection.fetch(b"SELECT * FROM t FOR UPDATE")
    with pytest.raises(Contention) as caught:
        await other.fetch(b"SELECT * FROM t FOR UPDATE NOWAIT")
    assert caught.value.code == (3572 if other.server.flavour == "mysql" else 1205)
    await other.execute(b"SET innodb_lock_wait_timeout = 1")
    with pytest.raises(Contention) as caught:
        await other.execute(b"DELETE FROM t WHERE a = 1")
    assert caught.value.code == 1205
    await connection.rollback()


async def test_killed_at_rest(connection: Connection, other: Connection) -> None:
    assert not connection.is_stale()
    await other.execute(b"KILL CONNECTION %d" % connection.id)
    await servers.until(connection.is_stale)
    with pytest.raises(Unavailable):
        await connection.fetch(b"SELECT 1")
    assert connection.closed
    await connection.rollback()


@pytest.mark.parametrize("what", [b"CONNECTION", b"QUERY"])
async def test_killed_at_work(connection: Connection, other: Connection, what: bytes) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY)")
    await connection.execute(b"INSERT INTO t VALUES (1)")
    await other.begin()
    await other.execute(b"DELETE FROM t WHERE a = 1")
    raised: list[Unavailable] = []

    async def work() -> None:
        with pytest.raises(Unavailable) as caught:
            await connection.execute(b"UPDATE t SET a = 2 WHERE a = 1")
        raised.append(caught.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        at_work = b"SELECT 1 FROM information_schema.processlist WHERE id = %d AND info LIKE 'UPDATE%%'"
        await servers.until(lambda: other.fetch(at_work % connection.id))
        await other.execute(b"KILL %s %d" % (what, connection.id))
    # Outside a transaction the statement commits by itself: what became of it is not known.
    assert isinstance(raised[0], OutcomeUnknown)
    assert connection.closed
    await other.rollback()


async def test_the_server_is_killed() -> None:
    with servers.mariadb() as server:
        dsn = Dsn.parse(server.dsn)
        connection, sleeper = await connect(dsn, write=True), await connect(dsn, write=False)

        async def sleep() -> None:
            with pytest.raises(Unavailable) as caught:
                await sleeper.fetch(b"SELECT SLEEP(60)")
            assert not isinstance(caught.value, OutcomeUnknown)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep)
            await trio.testing.wait_all_tasks_blocked()
            server.kill()
        with pytest.raises(Unavailable):
            await connection.ping()
        with pytest.raises(Unavailable):
            await connect(dsn, write=True)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("heard", [True, False])
async def test_a_commit_whose_answer_is_lost(
    line: servers.Line, connection: Connection, open_connection: Open, heard: bool, together: bool
) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY)")
    writer = await open_connection(Dsn.parse(line.dsn))
    await writer.begin()
    insert = b"INSERT INTO t VALUES (1)"
    if not together:
        await writer.execute(insert)
    if heard:
        line.cut_after = b"COMMIT"
    else:
        line.cut_before = b"COMMIT"
    with pytest.raises(OutcomeUnknown):
        await writer.commit([insert] if together else [])
    assert writer.closed
    if not (together and heard):  # it is cut off with the answer to the first of them: the server may stop there
        assert await connection.fetch(b"SELECT * FROM t") == ([(1,)] if heard else [])


async def test_a_connection_lost_before_commit(
    line: servers.Line, connection: Connection, open_connection: Open
) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY)")
    writer = await open_connection(Dsn.parse(line.dsn))
    await writer.begin()
    line.cut_after = b"INSERT"
    with pytest.raises(Unavailable) as caught:
        await writer.execute(b"INSERT INTO t VALUES (1)")
    assert not isinstance(caught.value, OutcomeUnknown)
    with pytest.raises(Unavailable) as caught:
        await writer.commit()
    # Nothing was sent, so it is known that nothing is kept.
    assert not isinstance(caught.value, OutcomeUnknown)
    assert await connection.fetch(b"SELECT * FROM t") == []


async def test_a_statement_that_commits_by_itself_and_is_lost(
    line: servers.Line, connection: Connection, open_connection: Open
) -> None:
    await connection.execute(b"CREATE TABLE t (a INT PRIMARY KEY)")
    writer = await open_connection(Dsn.parse(line.dsn))
    line.cut_after = b"INSERT"
    with pytest.raises(OutcomeUnknown):
        await writer.execute(b"INSERT INTO t VALUES (1)")
    assert await connection.fetch(b"SELECT * FROM t") == [(1,)]


async def test_a_rollback_that_is_lost_is_no_error(line: servers.Line, open_connection: Open) -> None:
    writer = await open_connection(Dsn.parse(line.dsn))
    await writer.begin()
    await writer.fetch(b"SELECT 1")
    line.cut_before = b"ROLLBACK"
    await writer.rollback()
    assert writer.closed
    await writer.rollback()


async def test_close_says_goodbye(line: servers.Line, open_connection: Open) -> None:
    connection = await open_connection(Dsn.parse(line.dsn))
    connection.close()
    connection.close()
    await servers.until(lambda: line.sent.endswith(b"\x01\0\0\0\x01"))


async def test_closed_by_another_task(connection: Connection) -> None:
    async def sleep() -> None:
        with pytest.raises(Unavailable):
            await connection.fetch(b"SELECT SLEEP(60)")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleep)
        await trio.testing.wait_all_tasks_blocked()
        connection.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, Unavailable) for code in (3, 1021, 1053, 1114, 1317, 1927, 2006, 2013, 3169, 4031)),
        *((code, ReadOnly) for code in (1047, 1290, 1792, 1836, 3100)),
        *((code, Full) for code in (1040, 1203, 1226)),
        *((code, Contention) for code in (1020, 1213)),
        *((code, Locked) for code in (1205, 3572)),
        *((code, DuplicateKey) for code in (1022, 1062, 1586)),
        *((code, Unfit) for code in (1045, 1064, 1146, 1153)),
        *((code, Refused) for code in (1048, 1264, 1366, 1406)),
    ],
)
def test_error_codes(code: int, kind: type[Any]) -> None:
    error = to_store_error(code, "what it says")
    assert type(error) is kind
    assert error.code == code
    assert str(error) == f"what it says ({code})"
