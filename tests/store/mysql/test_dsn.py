import pytest

from tarry.store.mysql.dsn import Dsn


def test_all_parts() -> None:
    dsn = Dsn.parse("mysql://us%40er:p%3Aw%2F@db.example:3307/na%2Dme?ssl_mode=VERIFY_CA&ssl_ca=/etc/ca.pem")
    assert dsn == Dsn(
        user="us@er",
        password="p:w/",
        host="db.example",
        port=3307,
        database="na-me",
        ssl_mode="VERIFY_CA",
        ssl_ca="/etc/ca.pem",
    )


def test_defaults() -> None:
    assert Dsn.parse("mysql://root@localhost/tarry") == Dsn(user="root", host="localhost", port=3306, database="tarry")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("mysql://u@127.0.0.1/d", "DISABLED"),
        ("mysql://u@127.8.9.1/d", "DISABLED"),
        ("mysql://u@[::1]/d", "DISABLED"),
        ("mysql://u@localhost/d", "DISABLED"),
        ("mysql://u@/d?socket=/run/mysqld/mysqld.sock", "DISABLED"),
        ("mysql://u@10.0.0.1/d", "VERIFY_IDENTITY"),
        ("mysql://u@localhost.example/d", "VERIFY_IDENTITY"),
        ("mysql://u@db/d", "VERIFY_IDENTITY"),
        ("mysql://u@db/d?ssl_mode=DISABLED", "DISABLED"),
        ("mysql://u@db/d?ssl_mode=preferred", "PREFERRED"),
        ("mysql://u@db/d?ssl_mode=Required", "REQUIRED"),
        ("mysql://u@db/d?ssl_mode=VERIFY_CA", "VERIFY_CA"),
        ("mysql://u@db/d?ssl_mode=VERIFY_CA&ssl_ca=/ca.pem", "VERIFY_CA"),
        ("mysql://u@127.0.0.1/d?ssl_mode=VERIFY_IDENTITY", "VERIFY_IDENTITY"),
        ("mysql://u@127.0.0.1/d?ssl_ca=/ca.pem", "VERIFY_IDENTITY"),
        ("mysql://u@/d?socket=/s&ssl_mode=DISABLED", "DISABLED"),
    ],
)
def test_tls_is_verified_unless_it_stays_on_the_machine(text: str, mode: str) -> None:
    assert Dsn.parse(text).ssl_mode == mode


@pytest.mark.parametrize(
    "text", ["mysql://u@[::1]:3307/d", "mysql://u%40x@h/d", "mysql://u@/d?socket=/run/my%20sql.sock"]
)
def test_str_can_be_parsed_again(text: str) -> None:
    dsn = Dsn.parse(text)
    assert Dsn.parse(str(dsn)) == dsn


def test_the_password_is_not_shown() -> None:
    dsn = Dsn.parse("mysql://user:geheim@host/db")
    assert "geheim" not in f"{dsn} {dsn!r}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("postgres://u@h/d", "begins with mysql://"),
        ("mysql:u@h/d", "begins with mysql://"),
        ("mysql://h/d", "user is missing"),
        ("mysql://u@/d", "host is missing"),
        ("mysql://u@h", "database"),
        ("mysql://u@h/", "database"),
        ("mysql://u@h/a/b", "database"),
        ("mysql://u@h:0/d", "port"),
        ("mysql://u@h:70000/d", "port"),
        ("mysql://u@h:x/d", "port"),
        ("mysql://u:geheim/x@h/d", "percent-encode"),
        ("mysql://u:geheim#x@h/d", "%23"),
        ("mysql://u@[::1/d", "IPv6"),
        ("mysql://u@h/d?ssl_mod=DISABLED", "did you mean ssl_mode"),
        ("mysql://u@h/d?charset=utf8", "unknown option 'charset'"),
        ("mysql://u@h/d?ssl_mode", "name=value"),
        ("mysql://u@h/d?ssl_mode=", "ssl_mode is empty"),
        ("mysql://u@h/d?ssl_mode=maybe", "one of DISABLED, PREFERRED"),
        ("mysql://u@h/d?ssl_mode=REQUIRED&ssl_mode=DISABLED", "twice"),
        ("mysql://u@h/d?ssl_mode=DISABLED&ssl_ca=/ca.pem", "without a look"),
        ("mysql://u@h/d?ssl_mode=PREFERRED&ssl_ca=/ca.pem", "without a look"),
        ("mysql://u@h/d?ssl_mode=REQUIRED&ssl_ca=/ca.pem", "without a look"),
        ("mysql://u@h/d?socket=/s", "leave one of them out"),
        ("mysql://u@/d?socket=/s&ssl_mode=REQUIRED", "leave ssl_mode out"),
        ("mysql://u@/d?socket=/s&ssl_ca=/ca.pem", "without a look"),
    ],
)
def test_what_is_wrong_is_named_and_the_password_is_not(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        Dsn.parse(text)
    assert "geheim" not in str(caught.value)
