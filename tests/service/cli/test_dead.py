"""The ids of dead letters, by flags and from stdin."""

import json
import re
from typing import Any

import pytest

from support.command_line import CommandLine
from support.scripted_server import Answer, Request, ScriptedServer
from tarry.service.cli import dead

COMMANDS = [["redrive"], ["dead", "purge"]]
IDS = [str(10**18 + number) for number in range(5)]
REST = ["orders", "--group", "g", "--dry-run"]


def answered(request: Request) -> Answer:
    """As many as are named."""
    done = "redriven" if request.path.endswith("redrive") else "purged"
    return Answer(200, {done: len(asked(request)), "expired": 0, "more": False, "to": "2026-01-01T00:00:00.000Z"})


def asked(request: Request) -> Any:
    return json.loads(request.content)["ids"]


@pytest.fixture(autouse=True)
def answers(script: ScriptedServer) -> None:
    script.respond = answered


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_ids_may_be_repeated(command: list[str], script: ScriptedServer, tarry: CommandLine) -> None:
    tarry(*command, "--id", IDS[0], *REST, f"--id={IDS[1]}", "--id", IDS[2])
    assert [asked(request) for request in script.requests] == [IDS[:3]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_ids_from_stdin(command: list[str], script: ScriptedServer, tarry: CommandLine) -> None:
    tarry(*command, *REST, "--id", IDS[0], "--id", "-", stdin="\r\n".join(["", *IDS[1:], ""]).encode())
    assert [asked(request) for request in script.requests] == [IDS]


def test_no_ids_from_stdin_are_none(script: ScriptedServer, tarry: CommandLine) -> None:
    assert tarry("redrive", *REST, "--id", "-", "--json", stdin=b"\n").json == {"redriven": 0, "dry_run": True}
    assert script.requests == []


@pytest.mark.parametrize("bad", [b"12a", b"-5", "١٢".encode(), b"\xff\x1b[2J", b"1 2", b"9" * 19, b"9" * 40])
def test_a_line_that_is_no_id_is_named_and_nothing_is_done(
    bad: bytes, script: ScriptedServer, tarry: CommandLine
) -> None:
    lines = b"\n".join([IDS[0].encode(), bad, IDS[1].encode()])
    told = tarry("redrive", *REST, "--id", "-", code=2, stdin=lines).err
    assert re.search("line 2 of stdin: .* is no message's id; nothing was done", told)
    assert "\x1b" not in told
    assert script.requests == []


def test_many_ids_are_sent_in_parts(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine
) -> None:
    monkeypatch.setattr(dead, "_IDS", 2)
    lines = "\n".join([*IDS, IDS[0]]).encode()
    printed = tarry("dead", "purge", "orders", "--group", "g", "--yes", "--id", "-", "--json", stdin=lines)
    assert [asked(request) for request in script.requests] == [IDS[:2], IDS[2:4], IDS[4:]]
    assert printed.json == {"purged": 5, "dry_run": False}


def test_a_flag_without_an_id_says_so(script: ScriptedServer, tarry: CommandLine) -> None:
    assert "--id" in tarry("redrive", *REST, "--id", code=2).err
    assert script.requests == []


@pytest.mark.parametrize("bad", ["12a", "9" * 19, "", "١٢"])
def test_a_flag_that_is_no_id_is_named_and_nothing_is_done(
    bad: str, script: ScriptedServer, tarry: CommandLine
) -> None:
    assert "is no message's id; nothing was done" in tarry("redrive", *REST, "--id", IDS[0], f"--id={bad}", code=2).err
    assert script.requests == []


def test_who_is_not_asked_does_not_wait_for_a_count(script: ScriptedServer, tarry: CommandLine) -> None:
    tarry("dead", "purge", "orders", "--group", "g", "--yes", "--id", IDS[0])
    assert [json.loads(request.content).get("dry_run", False) for request in script.requests] == [False]
