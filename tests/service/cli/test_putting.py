"""`topics put` and `groups put`: what is sent, what a flag may say, and what is shown beside the defaults."""

from typing import Any

import pytest
from attrs import frozen
from cyclopts import Token
from hypothesis import given
from hypothesis import strategies as st

from support.command_line import CommandLine
from support.scripted_server import Answer, Request, ScriptedServer, problem
from tarry.service.cli.putting import group_rows, or_ladder, rungs, topic_rows
from tarry.service.durations import format_duration, parse_duration

DEFAULTS = {"retention": 604_800_000, "ladder": [10_000, 60_000], "jitter": 0.0}
PLAIN = {"kind": "cluster", "queues": 1, "ordered": False, "sequencer": "store", "retention": None, "ladder": None}
PLAIN |= {"jitter": None, "max_pending": None, "max_rate": None, "release_rate": None}
GROUP = {"ladder": [10_000, 60_000], "jitter": 0.0, "on_exhausted": "dead", "concurrency": None}


def accept(request: Request) -> Answer:
    """A server that has the topic, and the group billing of it."""
    if request.method == "GET":
        return Answer(200, {"topic": "orders", "groups": [{"group": "billing"}]})
    if "/groups/" in request.path:
        return Answer(200, GROUP | {"ladder_of": "server", "defaults": DEFAULTS | {"ladder_of": "server"}})
    return Answer(200, PLAIN | {"topic": "orders", "defaults": DEFAULTS})


@frozen
class Put:
    """`put` at a server that takes everything: what is sent, and what is told."""

    script: ScriptedServer
    tarry: CommandLine

    def __call__(self, *arguments: str) -> tuple[Any, str]:
        self.script.respond = accept
        told = self.tarry(*arguments).err
        sent = self.script.requests[-1]
        assert sent.method == "PUT"
        return sent.json, told


@pytest.fixture
def put(script: ScriptedServer, tarry: CommandLine) -> Put:
    return Put(script, tarry)


@pytest.mark.parametrize(
    ("flags", "sent"),
    [
        ([], {}),
        (["--queues", "4", "--ordered"], {"queues": 4, "ordered": True}),
        (["--no-ordered", "--kind", "broadcast"], {"ordered": False, "kind": "broadcast"}),
        (["--retention", "30d", "--ladder", "1m, 5m"], {"retention": "30d", "ladder": ["1m", "5m"]}),
        (["--ladder", "none", "--jitter", "0.2"], {"ladder": [], "jitter": 0.2}),
        (["--retention", "default", "--ladder", "default"], {"retention": None, "ladder": None}),
        (["--max-pending", "0", "--max-rate=7"], {"max_pending": 0, "max_rate": 7}),
        (["--release-rate", "500", "--max-rate", "default"], {"release_rate": 500, "max_rate": None}),
        (["--sequencer", "redis"], {"sequencer": "redis"}),
    ],
)
def test_what_is_said_of_a_topic_is_sent_and_nothing_else(put: Put, flags: list[str], sent: dict[str, Any]) -> None:
    told = "changed\n" if sent else "it is there, and nothing of it was changed\n"
    assert put("topics", "put", "orders", *flags) == (sent, told)


@pytest.mark.parametrize(
    ("flags", "sent", "told"),
    [
        ([], {}, "it is there, and nothing of it was changed"),
        (["--ladder", "1s"], {"ladder": ["1s"]}, "changed"),
        (["--ladder", "default", "--concurrency", "default"], {"ladder": None, "concurrency": None}, "changed"),
        (["--concurrency", "5", "--on-exhausted", "block"], {"concurrency": 5, "on_exhausted": "block"}, "changed"),
        (["--from", "latest"], {"from": "latest"}, "--from is of one that is made, and tarry seek moves it"),
    ],
)
def test_what_is_said_of_a_group_is_sent_and_nothing_else(
    put: Put, flags: list[str], sent: dict[str, Any], told: str
) -> None:
    asked, heard = put("groups", "put", "orders", "billing", *flags)
    assert (asked, told in heard) == (sent, True)
    assert put("groups", "put", "orders", "mail", *flags)[1] == "made\n"


def test_a_key_that_may_not_look_may_change(script: ScriptedServer, tarry: CommandLine) -> None:
    script.respond = lambda request: problem(403) if request.method == "GET" else accept(request)
    for command in ("topics put orders --queues 4", "groups put orders billing --ladder 1s"):
        assert tarry(*command.split()).err == "made, or changed\n"


@pytest.mark.parametrize("group", ["topics put orders", "groups put orders billing"])
@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("--ladder", "1m,5x", "rung 2: '5x' is not a duration"),
        ("--ladder", "1m,,5m", "rung 2: '' is not a duration"),
        ("--ladder", "1m,5", "rung 2: 5 has no unit"),
        ("--ladder", "-1m", "rung 1: -1m is no duration, which is not negative"),
        ("--ladder", "", "rung 1: '' is not a duration"),
        ("--jitter", "1.5", '"1.5" is not a number from 0 to 1'),
        ("--jitter", "-0.5", '"-0.5" is not a number from 0 to 1'),
        ("--jitter", "nan", '"nan" is not a number from 0 to 1'),
    ],
)
def test_a_value_that_is_none_names_its_flag(
    script: ScriptedServer, group: str, flag: str, value: str, told: str, tarry: CommandLine
) -> None:
    assert f"Invalid value for {flag}: {told}" in tarry(*group.split(), f"{flag}={value}", code=2).words
    assert script.requests == [], "nothing is done"


@pytest.mark.parametrize(
    ("value", "told"), [("30", "30 has no unit"), ("P1Y", "years and months"), ("-5d", "negative")]
)
def test_a_retention_that_is_none(script: ScriptedServer, value: str, told: str, tarry: CommandLine) -> None:
    err = tarry("topics", "put", "orders", "--retention", value, code=2).err
    assert "--retention" in err
    assert told in err
    assert script.requests == []


def refuse(*errors: dict[str, str]) -> Answer:
    return problem(400, detail=f"{errors[0].get('pointer')}: {errors[0]['detail']}", errors=list(errors))


def test_what_a_server_says_of_fields_is_told_of_flags(script: ScriptedServer, tarry: CommandLine) -> None:
    rate, rung = {"pointer": "/max_rate", "detail": "too little"}, {"pointer": "/ladder/1", "detail": "too long"}
    for errors, told in (
        ((dict(rate),), "tarry: --max-rate: too little\n"),
        ((dict(rate), dict(rung)), "tarry: --max-rate: too little\ntarry: --ladder, rung 2: too long\n"),
        (({"detail": "something else"},), "tarry: None: something else\n"),
    ):
        script.say(accept(Request("GET", "", b"", {})), refuse(*errors))
        assert tarry("topics", "put", "orders", "--max-rate", "0", code=2).err == told


def test_a_topic_beside_the_defaults() -> None:
    plain = {
        name: (value, whose, default) for name, value, whose, default in topic_rows(PLAIN | {"defaults": DEFAULTS})
    }
    assert plain["retention"] == ("1w", "server", "1w")
    assert plain["ladder"] == ("10s,1m", "server", "10s,1m")
    assert plain["max-rate"] == ("no limit", "server", "no limit")
    assert plain["queues"] == ("1", "topic", "1")
    own = PLAIN | {"retention": 0, "ladder": [], "jitter": 0.25, "max_rate": 7, "ordered": True, "defaults": DEFAULTS}
    told = {name: (value, whose, default) for name, value, whose, default in topic_rows(own)}
    assert told["retention"] == ("0s", "topic", "1w")
    assert told["ladder"] == ("none", "topic", "10s,1m")
    assert told["jitter"] == ("0.25", "topic", "0")
    assert told["max-rate"] == ("7", "topic", "no limit")
    assert told["ordered"] == ("yes", "topic", "no")


@pytest.mark.parametrize("whose", ["group", "topic", "server"])
def test_a_group_beside_the_defaults(whose: str) -> None:
    inherited = "topic" if whose == "topic" else "server"
    told = GROUP | {"ladder_of": whose, "defaults": {"ladder": [1000], "jitter": 0.5, "ladder_of": inherited}}
    ladder, jitter, exhausted, concurrency = group_rows(told)
    assert ladder == ("ladder", "10s,1m", whose, f"1s ({inherited})")
    assert jitter == ("jitter", "0", whose, f"0.5 ({inherited})")
    assert exhausted == ("on-exhausted", "dead", "group", "dead")
    assert concurrency == ("concurrency", "no limit", "server", "no limit")


def test_a_server_of_before_tells_no_defaults() -> None:
    assert ("retention", "", "server", "") in topic_rows(PLAIN)
    assert ("ladder", "10s,1m", "", "") in group_rows(GROUP)


def test_show_tells_all_in_json(script: ScriptedServer, tarry: CommandLine) -> None:
    told = PLAIN | {"topic": "orders", "defaults": DEFAULTS, "pending": 3}
    script.say(Answer(200, told))
    assert tarry("topics", "show", "orders", "--json").json == told


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=64))
def test_a_ladder_that_is_shown_can_be_said(rests: list[int]) -> None:
    text = {row[0]: row[1] for row in topic_rows(PLAIN | {"ladder": rests})}["ladder"]
    assert or_ladder(None, [Token(value=text)]) == text
    said = rungs(text)
    assert said is not None
    assert [parse_duration(rung) for rung in said] == rests
    assert text == ",".join(map(format_duration, rests))
