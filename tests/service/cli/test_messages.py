"""`show`, `find`, `reschedule` and `upcoming`: what is asked of the server, and what is shown of its answer."""

import base64
import json
import re
import sys
from typing import Any

import pytest

from support.command_line import CommandLine
from support.scripted_server import Answer, ScriptedServer, problem
from support.terminal import Terminal

AT = "2030-01-01T00:00:00.000Z"


def message(id_: str, **more: Any) -> dict[str, Any]:
    life = [
        {"what": "scheduled", "at": "2030-01-01T00:00:00.000Z"},
        {"what": "promoted", "at": "2030-01-01T00:00:01.250Z"},
        {"what": "claimed", "at": "2030-01-01T00:00:01.257Z", "group": "g", "client": "me", "attempt": 1},
    ]
    known = {"id": id_, "topic": "t", "key": "k", "tag": None, "body": {"a": 1}, "deliver_at": AT, "state": "published"}
    return known | {"life": life} | more


def test_show_has_the_life_to_the_millisecond(script: ScriptedServer, tarry: CommandLine) -> None:
    script.say(Answer(200, message("5")), Answer(200, message("5")))
    shown = tarry("show", "5").lines
    assert 'body\t{"a": 1}' in shown
    assert not any(line.startswith("tag") for line in shown), "what it has not is left out"
    assert shown[-2] == "2030-01-01T00:00:01.250Z\t1250\tpromoted\t\t\t\t"
    assert shown[-1] == "2030-01-01T00:00:01.257Z\t7\tclaimed\tg\t1\tme\t"
    assert tarry("show", "5", "--json").json == message("5")
    assert [request.path for request in script.requests] == ["/v1/messages/5"] * 2


@pytest.mark.parametrize("body", [b"1e999", b'{"a": [-1e400]}', b"1" * 5000])
def test_a_body_that_python_cannot_read_is_shown_as_bytes(
    script: ScriptedServer, tarry: CommandLine, body: bytes
) -> None:
    """Written again, `1e999` were `Infinity`, which is no JSON."""
    page = {"messages": [message("4"), message("5", body="spoilt")], "cursor": None}
    schedule = {"name": "s", "spec": {"topic": "t", "body": "spoilt"}, "next": [], "paused": False, "revision": 1}
    documents: list[dict[str, Any]] = [message("5", body="spoilt"), page, {"schedules": [schedule], "cursor": None}]
    contents = [json.dumps(document).encode().replace(b'"spoilt"', body) for document in documents]
    script.say(*(Answer(200, headers={"Content-Type": "application/json"}, content=one) for one in contents))
    shown = tarry("show", "5", "--json").json
    first, found = tarry("find", "t", "--key", "k", "--json").records
    planned = tarry("schedule", "list", "--json").json
    assert first["body"] == {"a": 1}
    for one in (shown, found, planned["spec"]):
        assert base64.b64decode(one["body_base64"]) == body
        assert one["content_type"] == "application/json"
        assert "body" not in one


def test_show_of_none(script: ScriptedServer, tarry: CommandLine) -> None:
    script.say(problem(404))
    tarry("show", "5", code=3)


def test_find_goes_over_all_pages(script: ScriptedServer, tarry: CommandLine) -> None:
    pages = [{"messages": [message("1"), message("2")], "cursor": "c"}, {"messages": [message("3")], "cursor": None}]
    script.say(*(Answer(200, page) for page in pages))
    times = ("--from", "2030-01-01T00:00:00Z", "--to", "2030-01-02T00:00:00Z")
    found = tarry("find", "t", "--key", "k", "--state", "scheduled", *times, "--json")
    assert [one["id"] for one in found.records] == ["1", "2", "3"]
    first, second = (request.path for request in script.requests)
    for part in ("topic=t", "key=k", "state=scheduled", "from=2030-01-01T00", "to=2030-01-02T00"):
        assert part in first
    assert "cursor=c" in second


def test_find_shows_each_once_and_no_more_than_wanted(script: ScriptedServer, tarry: CommandLine) -> None:
    page = {"messages": [message("1"), message("2"), message("1")], "cursor": None}
    script.respond = lambda _: Answer(200, page)
    head, *rows = tarry("find", "t", "--state", "dead").rows
    assert head == ["id", "state", "deliver at", "key", "last", "at", "body"]
    assert [row[0] for row in rows] == ["1", "2"]
    assert rows[0][4:] == ["claimed g", "2030-01-01T00:00:01.257Z", '{"a": 1}']
    assert len(tarry("find", "t", "--state", "dead", "--max", "1").lines) == 2
    tarry("find", "t", "--max", "1")
    assert script.requests[-1].path == "/v1/messages?topic=t"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["timer", "list", "t", "--max", "0"], "--max"),
        (["find", "t", "--key", "k", "--max", "0"], "--max"),
        (["reschedule", "5"], "--delay or --at"),
        (["reschedule", "5", "--delay", "1h", "--at", AT], "--delay or --at"),
        (["top", "--every", "0"], "--every"),
        (["top", "--max", "101"], "--max"),
    ],
)
def test_wrong_use(arguments: list[str], word: str, tarry: CommandLine) -> None:
    assert word in tarry(*arguments, code=2).err


def test_reschedule(script: ScriptedServer, tarry: CommandLine) -> None:
    done = {"result": "rescheduled", "id": "5", "deliver_at": AT}
    script.say(Answer(200, done), Answer(200, done), problem(409, result="too_late"), problem(409, result="cancelled"))
    assert tarry("reschedule", "5", "--delay", "2h", "--json").json == done
    tarry("reschedule", "5", "--at", "2030-01-01T00:00:00Z")
    assert [request.json for request in script.requests] == [{"delay": "2h"}, {"deliver_at": "2030-01-01T00:00:00Z"}]
    assert {request.method for request in script.requests} == {"PATCH"}
    for code in (4, 1):
        tarry("reschedule", "5", "--delay", "2h", code=code)


@pytest.mark.parametrize(("span", "asked"), [("minute", (12, 5000)), ("month", (30, 86_400_000))])
def test_upcoming(span: str, asked: tuple[int, int], script: ScriptedServer, tarry: CommandLine) -> None:
    counts = {"width": 5000, "buckets": [{"at": AT, "messages": n} for n in (0, 1, 600)], "counted_until": AT}
    script.respond = lambda _: Answer(200, counts)
    told = tarry("upcoming", "t", "--next", span)
    assert told.lines == ["from\tmessages", *(f"{AT}\t{n}" for n in (0, 1, 600))]
    assert f"--from {AT} goes on" in told.err
    assert tarry("upcoming", "t", "--next", span, "--json").json == counts
    assert f"buckets={asked[0]}" in script.requests[0].path
    assert f"width={asked[1]}" in script.requests[0].path


def test_upcoming_has_bars_on_a_terminal(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine
) -> None:
    counts = [0, 1, 400, 800]
    buckets = [{"at": AT, "messages": n} for n in counts]
    script.say(Answer(200, {"width": 5000, "buckets": buckets, "counted_until": None}))
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", screen)
    tarry("upcoming", "t")
    rows = [line for line in screen.getvalue().splitlines() if AT in line]
    bars = [re.sub("[^▏▎▍▌▋▊▉█]", "", row) for row in rows]
    assert len(bars) == 4, "no row is folded"
    assert (bars[0], bars[1], len(bars[2]) * 2, len(bars[3])) == ("", "▏", len(bars[3]), 30)
