"""The ids of dead letters, by flags and from stdin."""

import io
import json
import re
from typing import Any

import pytest

from support.scripted_server import Answer, Request, ScriptedServer
from tarry.service.cli import dead
from tarry.service.cli.app import run

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


def say(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_ids_may_be_repeated(command: list[str], script: ScriptedServer) -> None:
    assert run([*command, "--id", IDS[0], *REST, f"--id={IDS[1]}", "--id", IDS[2]]) == 0
    assert [asked(request) for request in script.requests] == [IDS[:3]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_ids_from_stdin(command: list[str], script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, "\r\n".join(["", *IDS[1:], ""]).encode())
    assert run([*command, *REST, "--id", IDS[0], "--id", "-"]) == 0
    assert [asked(request) for request in script.requests] == [IDS]


def test_no_ids_from_stdin_are_none(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say(monkeypatch, b"\n")
    assert run(["redrive", *REST, "--id", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"redriven": 0, "dry_run": True}
    assert script.requests == []


@pytest.mark.parametrize("bad", [b"12a", b"-5", "١٢".encode(), b"\xff\x1b[2J", b"1 2", b"9" * 19, b"9" * 40])
def test_a_line_that_is_no_id_is_named_and_nothing_is_done(
    bad: bytes, script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say(monkeypatch, b"\n".join([IDS[0].encode(), bad, IDS[1].encode()]))
    assert run(["redrive", *REST, "--id", "-"]) == 2
    told = capsys.readouterr().err
    assert re.search("line 2 of stdin: .* is no message's id; nothing was done", told)
    assert "\x1b" not in told
    assert script.requests == []


def test_many_ids_are_sent_in_parts(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dead, "_IDS", 2)
    say(monkeypatch, "\n".join([*IDS, IDS[0]]).encode())
    assert run(["dead", "purge", "orders", "--group", "g", "--yes", "--id", "-", "--json"]) == 0
    assert [asked(request) for request in script.requests] == [IDS[:2], IDS[2:4], IDS[4:]]
    assert json.loads(capsys.readouterr().out) == {"purged": 5, "dry_run": False}


def test_a_flag_without_an_id_says_so(script: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["redrive", *REST, "--id"]) == 2
    assert "--id" in capsys.readouterr().err
    assert script.requests == []


@pytest.mark.parametrize("bad", ["12a", "9" * 19, "", "١٢"])
def test_a_flag_that_is_no_id_is_named_and_nothing_is_done(
    bad: str, script: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["redrive", *REST, "--id", IDS[0], f"--id={bad}"]) == 2
    assert "is no message's id; nothing was done" in capsys.readouterr().err
    assert script.requests == []


def test_who_is_not_asked_does_not_wait_for_a_count(script: ScriptedServer) -> None:
    assert run(["dead", "purge", "orders", "--group", "g", "--yes", "--id", IDS[0]]) == 0
    assert [json.loads(request.content).get("dry_run", False) for request in script.requests] == [False]
