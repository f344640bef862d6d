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
        ("mysql://u@h:x/d", "port is not a number from 1 to 65535; several hosts stand with commas"),
        ("mysql://u:geheim@h:70000/d", "port is not a number from 1 to 65535; several hosts stand with commas"),
        ("mysql://u:geheim@h:1;i:2/d", "several hosts stand with commas"),
        ("mysql://u:geheim@h:1 i/d", "several hosts stand with commas"),
        ("mysql://u:geheim@::1/d", r"IPv6 address stands in brackets, .*@\[::1\]"),
        ("mysql://u:geheim@fe80::1:3306/d", "IPv6 address stands in brackets"),
        ("mysql://u:gehe@im:geheim/x@h/d", "percent-encode"),
        ("mysql://u:geheim?x@h/d", "percent-encode"),
        ("mysql://u:geheim/x@h/d", "percent-encode"),
        ("mysql://u:geheim#x@h/d", "%23"),
        ("mysql://u@[::1/d", "IPv6"),
        ("mysql://u:geheim@a,,b/d", "hosts: number 2 is empty, mysql://user:password@host1:3306,host2:3306/database"),
        ("mysql://u:geheim@a,b,/d", "hosts: number 3 is empty"),
        ("mysql://u:geheim@,b/d", "hosts: number 1 is empty"),
        ("mysql://u:geheim@a,u:geheim@b/d", "user and password stand once"),
        ("mysql://u:geheim@a:3306,u:geheim@b:3306,c/d", "user and password stand once"),
        ("mysql://u:geheim@a,b:3306,b/d", "number 3 stands there before"),
        ("mysql://u:geheim@a,b:x/d", "with host 2: the port"),
        ("mysql://u:geheim@a,[::1/d", "with host 2: the host: an IPv6 address"),
        ("mysql://u:geheim@a,b", "the database"),
        ("mysql://u:geheim@a,b/d?socket=/s", "leave one of them out"),
        ("mysql://u:geheim,x/y@h/d", "percent-encode"),
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


def test_several_hosts_and_each_has_its_own_tls() -> None:
    dsn = Dsn.parse("mysql://u:p%2Cw@db1,[::1]:3307,127.0.0.1:3308/d")
    assert [(one.host, one.port, one.ssl_mode) for one in dsn.each] == [
        ("db1", 3306, "VERIFY_IDENTITY"),
        ("::1", 3307, "DISABLED"),
        ("127.0.0.1", 3308, "DISABLED"),
    ]
    assert {(one.user, one.password, one.database, one.others) for one in dsn.each} == {("u", "p,w", "d", ())}
    assert str(dsn) == "mysql://u@db1:3306,[::1]:3307,127.0.0.1:3308/d"
    assert [one.ssl_mode for one in Dsn.parse("mysql://u@db1,db2/d?ssl_ca=/ca.pem").each] == ["VERIFY_IDENTITY"] * 2


def test_a_comma_elsewhere_is_no_host() -> None:
    dsn = Dsn.parse("mysql://u,v:p,w@h/d")
    assert (dsn.user, dsn.password, dsn.each) == ("u,v", "p,w", (dsn,))
    assert Dsn.parse("mysql://u@/d?socket=/run/a,b.sock").socket == "/run/a,b.sock"
