"""What a session sets: no setting of a server reaches it."""

import attrs
import pytest

from support.odd_settings import odd_settings
from support.servers import run_sql
from tarry.store.errors import Refused
from tarry.store.mysql import connection as module
from tarry.store.mysql import session
from tarry.store.mysql.connection import connect
from tarry.store.mysql.dsn import Dsn
from tarry.store.mysql.session import SETTINGS, Setting, set_up

OTHERS = ("lock_wait_timeout", "innodb_lock_wait_timeout", "wait_timeout", "net_read_timeout", "collation_connection")


@pytest.mark.parametrize("write", [True, False])
async def test_no_setting_of_the_server_reaches_a_session(dsn: Dsn, mysql_dsn: str, write: bool) -> None:
    async def told() -> dict[str, object]:
        connection = await connect(dsn, write=write)
        names = [s.name for s in SETTINGS if s.of in ("both", connection.server.flavour)] + list(OTHERS)
        ((*values,),) = await connection.fetch(b"SELECT " + b", ".join(f"@@{name}".encode() for name in names))
        connection.close()
        return dict(zip(names, values, strict=True))

    before = await told()
    with odd_settings(mysql_dsn):
        assert await told() == before


async def test_a_table_that_keeps_its_past_is_read_as_it_is_now(dsn: Dsn, mysql_dsn: str) -> None:
    """Somebody may have made our tables such as keep what they were."""
    connection = await connect(dsn, write=True)
    if connection.server.flavour == "mysql":
        connection.close()
        pytest.skip("MySQL keeps none")
    await connection.execute(b"CREATE TABLE past (id INT) WITH SYSTEM VERSIONING")
    await connection.execute(b"INSERT INTO past VALUES (1)")
    connection.close()
    with odd_settings(mysql_dsn):
        connection = await connect(dsn, write=True)
        assert await connection.fetch(b"SELECT id FROM past") == [(1,)]
        connection.close()


async def test_a_user_without_rights_of_its_own_may_set_them(dsn: Dsn, mysql_dsn: str) -> None:
    user = f"u_{dsn.database[-8:]}"
    run_sql(mysql_dsn, f"CREATE USER {user}@'%' IDENTIFIED BY 'x'", f"GRANT SELECT ON {dsn.database}.* TO {user}@'%'")
    try:
        (await connect(attrs.evolve(dsn, user=user, password="x"), write=True)).close()
    finally:
        run_sql(mysql_dsn, f"DROP USER {user}@'%'")


async def test_a_variable_that_the_server_lacks_is_left_out(dsn: Dsn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LACKING", {})
    monkeypatch.setattr(
        session, "SETTINGS", (*SETTINGS, *(Setting(f"nowhere_{n}", "1", "there is none") for n in "ab"))
    )
    (await connect(dsn, write=True)).close()
    assert list(module._LACKING.values()) == [frozenset({"nowhere_a", "nowhere_b"})]
    (await connect(dsn, write=True)).close()  # at once


async def test_a_server_that_was_built_without_galera(dsn: Dsn, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not know the variable that tells whether it is in one."""
    monkeypatch.setattr(module, "_LACKING", {})
    monkeypatch.setattr(module, "_WSREP_ON", "nowhere")
    monkeypatch.setattr(module, "_IN_GALERA", b", @@global.nowhere")
    (await connect(dsn, write=True)).close()
    assert list(module._LACKING.values()) == [frozenset({"nowhere"})]


async def test_one_that_it_will_not_have_is_an_error(dsn: Dsn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SETTINGS", (*SETTINGS, Setting("sql_mode", "'NOWHERE'", "a planted fault")))
    with pytest.raises(Refused, match="NOWHERE"):
        await connect(dsn, write=True)


def test_it_is_one_statement_and_says_nothing_twice() -> None:
    for kind in session.WAITS:
        text = set_up(kind).decode()
        assert ";" not in text
        for flavour in ("mysql", "mariadb"):
            names = [s.name for s in SETTINGS if s.of in ("both", flavour)]
            assert len(names) == len(set(names))
    assert b"sql_select_limit" not in set_up("read", frozenset({"sql_select_limit"}))
