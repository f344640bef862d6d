"""Settings: who wins, what is refused and with what words, and that no password is shown."""

from pathlib import Path
from typing import Any

import pytest

from tarry.service.places import masked
from tarry.service.settings import SettingError, Settings
from tarry.wheel.ladder import DEFAULT_RUNGS, Ladder

SECRET = "mysql://tarry:hunter2@db/tarry"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(
    toml: str | None = None, environment: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> Settings:
    if toml is not None:
        Path("tarry.toml").write_text(toml, "utf-8")
    return Settings.load(environment=environment or {}, flags=flags)


def test_the_defaults() -> None:
    settings = load()
    assert (settings.dsn, settings.listen, settings.auto_create) == ("sqlite:///tarry.db", "127.0.0.1:8277", True)
    assert (settings.max_body, settings.max_batch, settings.max_batch_bytes) == (262_144, 1000, 8_388_608)
    assert (settings.max_delay, settings.max_key, settings.max_claim) == (315_360_000_000, 255, 1000)
    assert (settings.lease, settings.max_lease, settings.max_wait) == (60_000, 43_200_000, 30_000)
    assert (settings.horizon, settings.horizon_step, settings.ladder) == (10_800_000, 300_000, DEFAULT_RUNGS)
    assert (settings.idempotency_window, settings.shutdown_grace) == (86_400_000, 25_000)
    assert settings.max_waiting == 67_108_864
    assert settings.node
    assert {settings.origin(name) for name, _, _ in settings.listed()} == {"default"}
    assert settings == Settings()


def test_later_wins_and_the_origin_is_kept() -> None:
    toml = 'lease = "10s"\nmax_lease = "1h"\nmax_wait = 5000\nauto_create = false\n'
    settings = load(toml, {"TARRY_LEASE": "20s", "TARRY_MAX_LEASE": "2h"}, {"lease": "30s", "max_wait": None})
    assert (settings.lease, settings.origin("lease")) == (30_000, "--lease")
    assert (settings.max_lease, settings.origin("max_lease")) == (7_200_000, "TARRY_MAX_LEASE")
    assert (settings.max_wait, settings.origin("max_wait")) == (5000, "tarry.toml")
    assert (settings.auto_create, settings.origin("auto_create")) == (False, "tarry.toml")
    assert settings.origin("horizon") == "default"


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("max_body", "64KiB", 65_536),
        ("max_body", 1000, 1000),
        ("max_body", "1000", 1000),
        ("max_batch", "10", 10),
        ("auto_create", "no", False),
        ("auto_create", "TRUE", True),
        ("ladder", "1s, 2s,PT3S", (1000, 2000, 3000)),
        ("ladder", ["1s", 2000], (1000, 2000)),
        ("ladder", [], ()),
        ("ladder", Ladder((5,)), (5,)),
        ("lease", "90s", 90_000),
        ("max_wait", 0, 0),
        ("listen", "[::1]:0", "[::1]:0"),
        ("listen", "localhost:8277", "localhost:8277"),
        ("listen", "127.0.0.2:80", "127.0.0.2:80"),
        ("listen", "unix:/run/t.sock", "unix:/run/t.sock"),
        ("socket_mode", "660", 0o660),
        ("socket_mode", "0600", 0o600),
        ("node", "a.b-c_1", "a.b-c_1"),
        ("log_format", "json", "json"),
        ("dsn", SECRET, SECRET),
    ],
)
def test_values_are_read(name: str, written: object, value: object) -> None:
    settings = load(flags={name: written})
    assert getattr(settings, name) == value
    made: dict[str, Any] = {name: written}
    assert Settings(**made) == settings


WRONG: dict[str, dict[str, list[Any]]] = {
    "dsn": {"sqlite:///path or mysql://": ["postgres://a@b/c", 5]},
    "listen": {
        "unix:PATH": ["unix:"],
        "96 bytes": ["unix:/" + "x" * 96],
        "host:port": [":8277", "127.0.0.1", "127.0.0.1:99999", "::1:80"],
    },
    "socket_mode": {"lets its owner in": ["066", "rw"], "write": [660]},
    "max_body": {"KiB": ["1MB"], "between": [0], "not a size": [True]},
    "max_batch": {"whole number": ["many", 1.5]},
    "max_key": {"between 1 and 255": [256]},
    "lease": {"no fixed length": ["1 month"], "between": [0], "not a duration": [[1]], "true and false": [True]},
    "ladder": {"list of durations": [5], "64 rungs": [["1s"] * 65], "not a duration": ["1s,,2s"]},
    "auto_create": {"neither true nor false": ["perhaps", 1]},
    "log_level": {"debug, info": ["loud"]},
    "node": {"not a name": ["a b"], "empty: leave it out": [""]},
    "processes": {"not a whole number: say one from 1 to 64": [1.5, "1.5"], "between 1 and 64": [0]},
}
"""By setting, and by the words that say what is wrong."""


@pytest.mark.parametrize(
    ("name", "written", "words"),
    [(name, one, words) for name, wrong in WRONG.items() for words, all_ in wrong.items() for one in all_],
)
def test_what_is_no_good_names_the_setting_and_its_origin(name: str, written: object, words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        load(flags={name: written})
    assert str(caught.value).startswith(f"{name} (--{name.replace('_', '-')}): ")


@pytest.mark.parametrize(
    ("toml", "environment", "words"),
    [
        ('lisen = "x"', {}, "tarry.toml: unknown setting 'lisen': did you mean listen?"),
        ("[server]\nlisten = 1", {}, "tarry.toml: unknown setting 'server'"),
        ("lease =", {}, "tarry.toml: "),
        ("lease = 2026-11-21", {}, r"lease \(tarry.toml\): .*not a duration"),
        ('node = ""', {}, r"node \(tarry.toml\): it is empty: leave it out"),
        ("processes = 1.5", {}, r"processes \(tarry.toml\): 1.5 is not a whole number: say one from 1 to 64"),
        (None, {"TARRY_NODE": ""}, r"node \(TARRY_NODE\): it is empty; unset it"),
        (None, {"TARRY_PROCESSES": "1.5"}, r"processes \(TARRY_PROCESSES\): '1.5' is not a whole number"),
        ("lease = -1", {}, r"lease \(tarry.toml\): .*negative"),
        (None, {"TARRY_LISEN": "x"}, "unknown variable TARRY_LISEN: did you mean TARRY_LISTEN?"),
        (None, {"TARRY_LISTEN_FILE": "x"}, "unknown variable TARRY_LISTEN_FILE"),
        (None, {"TARRY_LEASE": ""}, r"lease \(TARRY_LEASE\): it is empty"),
        (None, {"TARRY_LEASE": "long"}, r"lease \(TARRY_LEASE\): 'long' is not a duration"),
        (None, {"TARRY_DSN_FILE": "none"}, "dsn: TARRY_DSN_FILE: none cannot be read: No such file or directory"),
        (None, {"TARRY_DSN_FILE": "bytes"}, "dsn: TARRY_DSN_FILE: bytes is not text in UTF-8: byte 3 is not"),
        (None, {"TARRY_DSN_FILE": "dsn", "TARRY_DSN": SECRET}, "are both set"),
        (None, {"TARRY_CONFIG": "none.toml"}, "none.toml cannot be read: No such file or directory"),
        ('horizon = "1m"', {}, r"horizon_step \(default\) is 5m, more than horizon \(tarry.toml\), which is 1m"),
    ],
)
def test_what_is_wrong_with_a_source(toml: str | None, environment: dict[str, str], words: str) -> None:
    Path("dsn").write_text(SECRET)
    Path("bytes").write_bytes(b"abc\xff")
    with pytest.raises(SettingError, match=words):
        load(toml, environment)


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(SettingError, match="did you mean listen"):
        load(flags={"lissten": 5})


def test_the_file_may_lie_anywhere() -> None:
    Path("other.toml").write_text('lease = "7s"')
    settings = Settings.load(config="other.toml", environment={"TARRY_CONFIG": "none.toml"})
    assert (settings.lease, settings.origin("lease")) == (7000, "other.toml")
    assert Settings.load(environment={"TARRY_CONFIG": "other.toml"}).lease == 7000
    with pytest.raises(SettingError, match=r"none\.toml cannot be read: No such file"):
        Settings.load(config="none.toml", environment={})


def test_a_secret_comes_from_a_file() -> None:
    Path("dsn").write_text(SECRET + "\n")
    settings = load(environment={"TARRY_DSN_FILE": "dsn"})
    assert (settings.dsn, settings.origin("dsn")) == (SECRET, "TARRY_DSN_FILE")
    Path("hook").write_text("https://hooks.example/geheim\n")
    settings = load(environment={"TARRY_ALARM_URL_FILE": "hook"})
    assert (settings.alarm_url, settings.origin("alarm_url")) == (
        "https://hooks.example/geheim",
        "TARRY_ALARM_URL_FILE",
    )


def test_what_is_not_used_is_shown_as_it_may_be_written() -> None:
    shown = {name: value for name, value, _ in load().listed()}
    assert (shown["redis"], shown["alarm_url"]) == ("none", "none")
    settings = load(environment={"TARRY_REDIS": "none", "TARRY_ALARM_URL": "none"})
    assert (settings.redis, settings.alarm_url) == ("", "")


def test_variables_that_are_not_settings_are_left_alone() -> None:
    # The last ones are what Kubernetes sets in every pod beside a service called tarry.
    others = ["TARRY_TEST_MYSQL", "TARRY_URL", "TARRY_SERVICE_HOST", "TARRY_PORT", "TARRY_PORT_8277_TCP_ADDR", "HOME"]
    assert load(environment=dict.fromkeys(others, "tcp://10.0.0.1")) == Settings()


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        (SECRET, "mysql://tarry:***@db/tarry"),
        ("mysql://tarry@db/tarry", "mysql://tarry@db/tarry"),
        ("mysql://tarry:hunter2@db1:3306,[::1]/tarry", "mysql://tarry:***@db1:3306,[::1]/tarry"),
        ("mysql://tarry:a@b:c@db:3306/tarry?ssl_mode=DISABLED", "mysql://tarry:***@db:3306/tarry?ssl_mode=DISABLED"),
        ("mysql://:hunter2@db/tarry", "mysql://:***@db/tarry"),
        ("mysql://tarry:hun/ter2@db/tarry", "mysql://tarry:***@db/tarry"),
        ("sqlite:///tarry.db", "sqlite:///tarry.db"),
        ("mysql://tarry:hun?ter2@db/tarry", "mysql://***"),
        ("mysql://tarry:hun?ter2@x@db/tarry?ssl_mode=DISABLED", "mysql://***"),
        (
            "mysql://tarry:x@db/tarry?socket=/run/s&password=hunter2",
            "mysql://tarry:***@db/tarry?socket=/run/s&password=***",
        ),
    ],
)
def test_no_password_is_shown(dsn: str, shown: str) -> None:
    settings = Settings(dsn=dsn)
    assert masked(dsn) == shown
    assert ("dsn", shown, "default") in settings.listed()
    assert "hunter2" not in repr(settings)
    assert shown in repr(settings)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://cache:6379/0?password=hunter2", "redis://cache:6379/0?password=***"),
        (
            "redis://cache/0?db=1&username=u&password=hunter2&protocol=3",
            "redis://cache/0?db=1&username=***&password=***&protocol=3",
        ),
        ("rediss://u:hunter2@cache/0?ssl_password=hunter2", "rediss://u:***@cache/0?ssl_password=***"),
        ("unix:///run/redis.sock?password=hun@ter2", "unix://***"),
        ("redis://:hunter2@cache?hunter2", "redis://:***@cache?***"),
        ("redis://cache/0?ssl_keyfile=x&PASSWORD=hunter2", "redis://cache/0?ssl_keyfile=***&PASSWORD=***"),
    ],
)
def test_no_password_of_a_redis_is_shown(url: str, shown: str) -> None:
    settings = Settings(redis=url)
    assert ("redis", shown, "default") in settings.listed()
    assert "hunter2" not in repr(settings)


def test_values_are_listed_as_they_are_written() -> None:
    shown = {name: value for name, value, _ in load().listed()}
    assert shown.pop("guards") == "none", "their names; they are written in the file alone"
    assert (shown["lease"], shown["max_body"], shown["auto_create"]) == ("1m", "256KiB", "true")
    again = load(flags=dict(shown))
    assert again == Settings()


@pytest.mark.parametrize(
    ("listen", "host", "beyond"),
    [
        ("127.0.0.1:8277", "127.0.0.1", False),
        ("127.9.9.9:1", "127.9.9.9", False),
        ("[::1]:8277", "::1", False),
        ("localhost:8277", "localhost", False),
        ("unix:/run/tarry.sock", "localhost", False),
        ("0.0.0.0:8277", "0.0.0.0", True),
        ("[::]:8277", "::", True),
        ("192.0.2.7:8277", "192.0.2.7", True),
        ("tarry.example:8277", "tarry.example", True),
    ],
)
def test_who_can_reach_the_server(listen: str, host: str, beyond: bool) -> None:
    settings = Settings(listen=listen)
    assert (settings.listen_host, settings.is_beyond, settings.always_asks) == (host, beyond, beyond)
    assert not Settings(listen=listen, insecure_listen=True).always_asks


def test_a_binary_log_s_cache_that_is_too_small() -> None:
    settings = Settings()
    assert settings.wrong_cache(None) is None
    assert settings.wrong_cache(2**64 - 4096) is None
    assert "max_binlog_cache_size" in (settings.wrong_cache(4096) or "")
