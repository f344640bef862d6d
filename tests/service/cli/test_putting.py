"""`topics put` and `groups put`: what is sent, what a flag may say, and what is shown beside the defaults."""

import json
from typing import Any

import pytest
from cyclopts import Token
from hypothesis import given
from hypothesis import strategies as st

from support.scripted_server import Answer, Request, ScriptedServer, problem
from tarry.service.cli.app import run
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


def put(script: ScriptedServer, *arguments: str) -> Any:
    """What is sent."""
    script.respond = accept
    assert run(list(arguments)) == 0
    sent = script.requests[-1]
    assert sent.method == "PUT"
    return sent.json


@pytest.mark.parametrize(
    ("flags", "sent"),
    [
        ((), {}),
        (("--queues", "4", "--ordered"), {"queues": 4, "ordered": True}),
        (("--no-ordered", "--kind", "broadcast"), {"ordered": False, "kind": "broadcast"}),
        (("--retention", "30d", "--ladder", "1m, 5m"), {"retention": "30d", "ladder": ["1m", "5m"]}),
        (("--ladder", "none", "--jitter", "0.2"), {"ladder": [], "jitter": 0.2}),
        (("--retention", "default", "--ladder", "default"), {"retention": None, "ladder": None}),
        (("--max-pending", "0", "--max-rate=7"), {"max_pending": 0, "max_rate": 7}),
        (("--release-rate", "500", "--max-rate", "default"), {"release_rate": 500, "max_rate": None}),
        (("--sequencer", "redis"), {"sequencer": "redis"}),
    ],
)
def test_what_is_said_of_a_topic_is_sent_and_nothing_else(
    script: ScriptedServer, flags: tuple[str, ...], sent: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert put(script, "topics", "put", "orders", *flags) == sent
    assert capsys.readouterr().err == ("changed\n" if sent else "it is there, and nothing of it was changed\n")


@pytest.mark.parametrize(
    ("flags", "sent", "told"),
    [
        ((), {}, "it is there, and nothing of it was changed"),
        (("--ladder", "1s"), {"ladder": ["1s"]}, "changed"),
        (("--ladder", "default", "--concurrency", "default"), {"ladder": None, "concurrency": None}, "changed"),
        (("--concurrency", "5", "--on-exhausted", "block"), {"concurrency": 5, "on_exhausted": "block"}, "changed"),
        (("--from", "latest"), {"from": "latest"}, "--from is of one that is made, and tarry seek moves it"),
    ],
)
def test_what_is_said_of_a_group_is_sent_and_nothing_else(
    script: ScriptedServer, flags: tuple[str, ...], sent: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert put(script, "groups", "put", "orders", "billing", *flags) == sent
    assert told in capsys.readouterr().err
    put(script, "groups", "put", "orders", "mail", *flags)
    assert capsys.readouterr().err == "made\n"


def test_a_key_that_may_not_look_may_change(script: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    script.respond = lambda request: problem(403) if request.method == "GET" else accept(request)
    assert run(["topics", "put", "orders", "--queues", "4"]) == 0
    assert run(["groups", "put", "orders", "billing", "--ladder", "1s"]) == 0
    assert capsys.readouterr().err == "made, or changed\n" * 2


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
    script: ScriptedServer, group: str, flag: str, value: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*group.split(), f"{flag}={value}"]) == 2
    err = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f"Invalid value for {flag}: {told}" in err
    assert script.requests == [], "nothing is done"


@pytest.mark.parametrize(
    ("value", "told"), [("30", "30 has no unit"), ("P1Y", "years and months"), ("-5d", "negative")]
)
def test_a_retention_that_is_none(
    script: ScriptedServer, value: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["topics", "put", "orders", "--retention", value]) == 2
    err = capsys.readouterr().err
    assert "--retention" in err
    assert told in err
    assert script.requests == []


def refuse(*errors: dict[str, str]) -> Answer:
    return problem(400, detail=f"{errors[0].get('pointer')}: {errors[0]['detail']}", errors=list(errors))


def test_what_a_server_says_of_fields_is_told_of_flags(
    script: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    rate, rung = {"pointer": "/max_rate", "detail": "too little"}, {"pointer": "/ladder/1", "detail": "too long"}
    for errors, told in (
        ((dict(rate),), "tarry: --max-rate: too little\n"),
        ((dict(rate), dict(rung)), "tarry: --max-rate: too little\ntarry: --ladder, rung 2: too long\n"),
        (({"detail": "something else"},), "tarry: None: something else\n"),
    ):
        script.say(accept(Request("GET", "", b"", {})), refuse(*errors))
        assert run(["topics", "put", "orders", "--max-rate", "0"]) == 2
        assert capsys.readouterr().err == told


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


def test_show_tells_all_in_json(script: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    told = PLAIN | {"topic": "orders", "defaults": DEFAULTS, "pending": 3}
    script.say(Answer(200, told))
    assert run(["topics", "show", "orders", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=64))
def test_a_ladder_that_is_shown_can_be_said(rests: list[int]) -> None:
    text = {row[0]: row[1] for row in topic_rows(PLAIN | {"ladder": rests})}["ladder"]
    assert or_ladder(None, [Token(value=text)]) == text
    said = rungs(text)
    assert said is not None
    assert [parse_duration(rung) for rung in said] == rests
    assert text == ",".join(map(format_duration, rests))
