"""Guards as they are declared: what is read, what is refused and with what words, and where the secret comes from."""

from pathlib import Path
from typing import Any

import pytest

from tarry.service.guards import declared
from tarry.service.guards.declared import Guard
from tarry.service.settings import SettingError, Settings

DSN = "mysql://guard:hunter2@db/shop"
FIELDS: dict[str, Any] = {"table": "shop.orders", "key_column": "number", "condition": "status = 'UNPAID'", "dsn": DSN}
GUARD = Guard("unpaid", "shop.orders", "number", "status = 'UNPAID'", DSN, 1000)
MYSQL = 'dsn = "mysql://tarry@db/tarry"\n'


def toml(**fields: Any) -> str:
    return "[guards.unpaid]\n" + "".join(f"{name} = {value!r}\n".replace("'", '"') for name, value in fields.items())


def test_it_is_read() -> None:
    assert declared.read({"unpaid": FIELDS}) == (GUARD,)
    (guard,) = declared.read({"unpaid": FIELDS | {"timeout": "250ms", "table": "orders"}})
    assert (guard.timeout, guard.quoted) == (250, ("`orders`", "`number`"))
    assert GUARD.quoted == ("`shop`.`orders`", "`number`")
    assert "hunter2" not in repr(GUARD)
    assert declared.show(()) == "none"


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("Unpaid", {}, "is no name"),
        ("unpaid", {"tabel": "x"}, "unknown 'tabel'"),
        ("unpaid", {"table": ""}, "table is missing"),
        ("unpaid", {"key_column": 7}, "key_column is missing"),
        ("unpaid", {"condition": " "}, "condition is missing"),
        ("unpaid", {"table": "a.b.c"}, "no name of a table"),
        ("unpaid", {"table": "orders` JOIN"}, "no name of a table"),
        ("unpaid", {"key_column": "a b"}, "no name of a column"),
        ("unpaid", {"dsn": "sqlite:///x"}, "begins with mysql://"),
        ("unpaid", {"dsn_file": "/nowhere"}, "leave one of them out"),
        ("unpaid", {"timeout": "1 month"}, "timeout"),
        ("unpaid", {"timeout": "40ms"}, "between"),
        ("unpaid", {"timeout": [1]}, "not a duration"),
    ],
)
def test_what_is_refused(name: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        declared.read({name: FIELDS | fields})
    assert "hunter2" not in str(refused.value)


def test_where_the_dsn_comes_from(tmp_path: Path) -> None:
    bare = {name: value for name, value in FIELDS.items() if name != "dsn"}
    (guard,) = declared.read({"unpaid": bare})
    with pytest.raises(ValueError, match="dsn is missing"):
        declared.with_secrets((guard,), {})
    other = "mysql://other:pw@db/shop"
    secret = tmp_path / "secret"
    secret.write_text(f"{other}\n", "utf-8")
    assert declared.read({"unpaid": bare | {"dsn_file": str(secret)}})[0].dsn == other
    for environment in ({"TARRY_GUARDS_UNPAID_DSN": other}, {"TARRY_GUARDS_UNPAID_DSN_FILE": str(secret)}):
        assert declared.with_secrets((guard,), environment)[0].dsn == other
        assert declared.with_secrets((GUARD,), environment)[0].dsn == other, "later wins"
    with pytest.raises(ValueError, match="no guard 'open' is declared"):
        declared.with_secrets((GUARD,), {"TARRY_GUARDS_OPEN_DSN": other})


def test_in_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tarry.toml").write_text(MYSQL + toml(**FIELDS | {"condition": "paid = 0"}), "utf-8")
    settings = Settings.load(environment={})
    assert [guard.name for guard in settings.guards] == ["unpaid"]
    assert ("guards", "unpaid", "tarry.toml") in settings.listed()
    with pytest.raises(SettingError, match="embedded store"):
        Settings.load(environment={}, flags={"dsn": "sqlite:///x.db"})
    with pytest.raises(SettingError, match="unknown variable TARRY_GUARDS"):
        Settings.load(environment={"TARRY_GUARDS": "x"})
    (tmp_path / "tarry.toml").write_text(MYSQL + 'guards = "unpaid"\n', "utf-8")
    with pytest.raises(SettingError, match=r"\[guards.unpaid\]"):
        Settings.load(environment={})
