"""Command lines: what they mean, what they print, and how they end."""

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from attrs import frozen
from cyclopts import App

from support.command_line import CommandLine, Printed
from support.scripted_server import Answer, Request, ScriptedServer, problem
from support.small_broker import SmallBroker
from support.terminal import Terminal
from tarry import __version__
from tarry.pipeline.cli.app import app as pipeline
from tarry.service.cli import server
from tarry.service.cli.app import app, run

RECEIPT = {"id": "5", "topic": "t", "state": "scheduled", "deliver_at": "2030-01-01T00:00:00.000Z"}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No tarry.toml and no tarry.db but those of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def accept(request: Request) -> Answer:
    document = request.json
    if "messages" in document:
        return Answer(201, {"messages": [RECEIPT] * len(document["messages"])})
    return Answer(201, RECEIPT)


@frozen
class Publish:
    """`tarry publish` to a server that takes everything: what is sent, without the key that the command makes up."""

    script: ScriptedServer
    tarry: CommandLine

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> tuple[dict[str, Any], Printed]:
        self.script.respond = accept
        printed = self.tarry("publish", *arguments, stdin=stdin)
        document: dict[str, Any] = self.script.requests[-1].json
        del document["idempotency_key"]
        return document, printed


@pytest.fixture
def publish(script: ScriptedServer, tarry: CommandLine) -> Publish:
    return Publish(script, tarry)


def test_version(tarry: CommandLine) -> None:
    assert tarry("--version").out.strip() == __version__


def _commands(group: App, name: tuple[str, ...] = ()) -> Iterator[tuple[str, App]]:
    """Every command by its words."""
    for word in group:
        if not word.startswith("-"):
            yield from _commands(group[word], (*name, word))
    if name and group.default_command is not None:
        yield " ".join(name), group


BOTH = [*_commands(app), *((f"pipeline {name}", one) for name, one in _commands(pipeline))]
COMMANDS = [name for name, _ in _commands(app) if name != "pipeline"]  # which becomes another program
GROUPS = ["", *sorted({name.rpartition(" ")[0] for name in COMMANDS if " " in name})]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, tarry: CommandLine) -> None:
    told = tarry(*command.split(), "--help").out
    assert f"tarry {command}" in told
    assert "--empty-" not in told, "a flag that nobody has thought of"
    # Each argument and each flag has a word about it, and not only whether it is required.
    assert not re.search(r"(?m)^\W*(--[a-z-]+ )?[A-Z]+(\.\.\.)? *(\[[^]]*\] *)*│?$", told)


@pytest.mark.parametrize("group", GROUPS)
def test_all_commands_are_told_in_a_line_each(group: str, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = tarry(*group.split(), "--help").out.split("Commands")[1].split("╰")[0]
    listed = re.findall(r"(?m)^│ +(\S.*?) {2,}(\S.*?) +│$", told)
    commands = [name for name, _ in listed if not name.startswith("-")]
    # Each has its line, and nothing else is there: a command without a word, or one of two lines, is no pair.
    assert len(listed) == told.count("\n│")
    assert commands == sorted(name for name in (app[group] if group else app) if not name.startswith("-"))


def _flags_of_numbers() -> Iterator[tuple[list[str], str]]:
    """Every flag of every command that takes a whole number; the command with what it demands beside."""
    for name, command in BOTH:
        arguments = command.assemble_argument_collection()
        demands = ["x" if one.index is not None else f"{one.name}=x" for one in arguments if one.required]
        for one in arguments:
            if int in (one.hint, *get_args(one.hint)):
                yield [*name.split(), *demands], one.name


NO_FACTS = {
    "serve": "its log is JSON with --log-format json",
    "pipeline report": "writes files, its figures as JSON among them, and prints where",
    "pipeline": "hands over to commands of its own, which are looked at here, too",
    "completion": "prints what a shell reads",
}
"""Commands for which --json makes no sense, and why."""


def test_every_command_that_tells_facts_tells_them_as_json() -> None:
    names = [name for name, _ in BOTH]
    assert {"show", "top", "schedule list", "keys create", "pipeline audit"} <= {*names}
    assert {*NO_FACTS} <= {*names}
    without = [
        name
        for name, command in BOTH
        if not any("--json" in one.names for one in command.assemble_argument_collection())
    ]
    assert sorted(without) == sorted(NO_FACTS)


FLAGS_OF_NUMBERS = [*_flags_of_numbers()]


def test_there_are_flags_of_numbers() -> None:
    commands = [" ".join(command) for command, _ in FLAGS_OF_NUMBERS]
    assert {"serve", "peek x", "redrive x --group=x", "pipeline archive"} <= {*commands}


@pytest.mark.parametrize(("command", "flag"), FLAGS_OF_NUMBERS)
@pytest.mark.parametrize("value", ["1.5", "0x2", "٢", ""])
def test_no_number_is_rounded(command: list[str], flag: str, value: str, tarry: CommandLine) -> None:
    words = [*command, f"{flag}={value}"]
    printed = tarry.pipeline(*words[1:], code=2) if command[0] == "pipeline" else tarry(*words, code=2)
    assert f'Invalid value for {flag}: "{value}" is not a whole number' in printed.words


@pytest.mark.parametrize(
    "arguments",
    [
        ["publsih"],
        ["publish"],
        ["publish", "t"],
        ["publish", "t", "1", "--file", "x"],
        ["publish", "t", "{"],
        ["publish", "t", "NaN"],
        ["publish", "t", "1", "--header", "x"],
        ["publish", "t", "1", "--url", "nowhere"],
        ["peek", "t", "--offset", "x"],
        ["consume", "t"],
        ["consume", "t", "--group", "g", "--no-ack", "--follow"],
        ["consume", "t", "--group", "g", "--max", "0"],
        ["consume", "--group", "g"],
        ["consume", "t", "u", "t", "--group", "g"],
        ["cancel"],
        ["config", "show", "--listen", "0.0.0.0"],
        ["config", "show", "--node", ""],
        ["config", "show", "--processes", "1.5"],
        ["config", "show", "--processes", "65"],
        ["keys", "create", "k"],
        ["keys", "create", "k", "--scope", "consume:orders"],
        ["keys", "create", "my key", "--scope", "admin"],
        ["keys", "create", "k", "--scope", "admin", "--dsn", "postgres://x/y"],
        ["consume", "t", "--group", "g", "--exec", "./no-such-command"],
        ["seek", "t", "--group", "g", "--to", "yesterday", "--yes"],
        ["groups", "t", "--delete", "..", "--yes"],
        ["groups", "--pause", "g"],
        ["groups", "--sort", "rate"],
        ["migrate", "--dsn", "postgres://x/y"],
        ["migrate", "--dsn", "mysql://root@127.0.0.1"],
        ["serve", "--dsn", "mysql://root@127.0.0.1"],
        ["serve", "--redis", "redis://127.0.0.1:x/0"],
        ["serve", "--nonsense"],
    ],
)
def test_wrong_usage_is_2_and_says_why(arguments: list[str], tarry: CommandLine) -> None:
    printed = tarry(*arguments, code=2)
    assert printed.err.strip()
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (problem(400, detail="delay: no"), 2),
        (problem(404), 3),
        (problem(409, result="too_late"), 4),
        (problem(409), 1),
        (problem(422), 1),
        (Answer(503, headers={"Retry-After": "9"}), 75),
    ],
)
def test_exit_codes(script: ScriptedServer, answer: Answer, code: int, tarry: CommandLine) -> None:
    script.say(answer)
    error = tarry("cancel", "5", code=code).err
    assert error.startswith("tarry: ")
    assert error.count("\n") == 1


def test_all_that_is_wrong_is_told(script: ScriptedServer, tarry: CommandLine) -> None:
    wrong = [{"pointer": "/key", "detail": "it is empty"}, {"pointer": "/delay", "detail": "it is\x1b[2J past"}]
    script.say(problem(400, detail="/key: it is empty (and 1 more)", errors=wrong))
    assert tarry("publish", "t", "1", code=2).err == "tarry: /key: it is empty\ntarry: /delay: it is\\x1b[2J past\n"


@pytest.mark.parametrize("errors", [5, [None, None], [{"pointer": "/a", "detail": "b"}, "c"], [{"detail": "b"}] * 2])
def test_what_another_server_says_is_wrong(script: ScriptedServer, errors: Any, tarry: CommandLine) -> None:
    script.say(problem(400, detail="no", errors=errors))
    assert tarry("publish", "t", "1", code=2).err == "tarry: no\n"


def test_of_very_much_that_is_wrong_some_is_told(script: ScriptedServer, tarry: CommandLine) -> None:
    wrong = [{"pointer": "", "detail": "a\nb"}, {"parameter": "x", "detail": "c"}] * 20
    script.say(problem(400, detail="no", errors=wrong))
    told = tarry("publish", "t", "1", code=2).err.splitlines()
    assert (told[:2], told[-1], len(told)) == (["tarry: the body: a\\nb", "tarry: x: c"], "tarry: and 20 more", 21)


def test_a_server_that_is_away_is_75(monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    monkeypatch.setattr(server, "_PATIENCE", 0.0)
    assert "http://127.0.0.1:9 does not answer" in tarry("topics", "--url", "http://127.0.0.1:9", code=75).err


def test_a_fault_of_our_own_is_one_sentence(script: ScriptedServer, tarry: CommandLine) -> None:
    script.say(Answer(200, {"surprise": 1}))
    assert "KeyError: 'topics'; PYTHONDEVMODE=1" in tarry("topics", code=1).err


def test_publish(publish: Publish) -> None:
    flags = ["--key", "k", "--delay", "10m", "--tag", "x", "--ordering-key", "o", "--header", "a=b=c", "--header", "d="]
    sent, printed = publish("t", '{"order": 7}', *flags)
    assert sent == {
        "body": {"order": 7},
        "key": "k",
        "delay": "10m",
        "tag": "x",
        "ordering_key": "o",
        "headers": {"a": "b=c", "d": ""},
    }
    assert printed.lines[1].startswith("5\tscheduled\t2030-01-01T00:00:00.000Z")


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["-7"], {"body": -7}),
        (["hello", "--text"], {"body": "hello"}),
        (["hello", "--content-type", "text/plain"], {"body_base64": "aGVsbG8=", "content_type": "text/plain"}),
        (["1", "--delay", "500ms"], {"body": 1, "delay": "500ms"}),
        (["1", "--at", "2030-01-01T00:00:00Z"], {"body": 1, "deliver_at": "2030-01-01T00:00:00Z"}),
        (["-"], {"body": {"a": 1}}),
        (["--file", "-"], {"messages": [{"body": {"a": 1}}]}),
    ],
    ids=" ".join,
)
def test_publish_bodies(publish: Publish, arguments: list[str], sent: dict[str, Any]) -> None:
    read = b'{"body": {"a": 1}}\n' if "--file" in arguments else b'{"a": 1}\n'
    assert publish("t", *arguments, stdin=read)[0] == sent


def test_publish_json(script: ScriptedServer, tarry: CommandLine) -> None:
    script.respond = accept
    assert tarry("publish", "t", "1", "--json").json["deliver_at"] == "2030-01-01T00:00:00.000Z"


def test_publish_a_file(publish: Publish, empty_folder: Path) -> None:
    lines = ['{"body": 1}', "", '{"body": null, "key": "own", "delay": "1h"}', '{"body_base64": "AP8="}']
    (empty_folder / "many").write_text("\n".join(lines))
    sent, printed = publish("t", "--file", "many", "--key", "common")
    assert sent == {
        "messages": [
            {"body": 1, "key": "common"},
            {"body": None, "key": "own", "delay": "1h"},
            {"body_base64": "AP8=", "content_type": "application/octet-stream", "key": "common"},
        ]
    }
    assert printed == Printed("", "published 3 messages to t\n")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 is not an object"),
        ('{"key": "x"}', "line 2 has no body"),
        ('{"body": 1, "kye": "x"}', "line 2: unknown kye"),
        ('{"body_base64": "?"}', "line 2: body_base64"),
        ('{"body": 1, "delay": "5x"}', "line 2: delay: '5x' is not a duration"),
        ('{"body": 1, "delay": "5"}', "line 2: delay: 5 has no unit"),
        ('{"body": 1, "deliver_at": "now"}', "line 2: deliver_at: 'now' is not a time"),
        ('{"body": 1, "deliver_between": "now"}', "line 2: deliver_between is two times"),
        ('{"body": 1, "key": 7}', "line 2: key is a text"),
        ('{"body": 1, "headers": {"a": 1}}', "line 2: headers are an object of texts"),
        ('{"body": NaN}', "line 2: "),
    ],
)
def test_a_bad_line_of_a_file(
    script: ScriptedServer, empty_folder: Path, line: str, word: str, tarry: CommandLine
) -> None:
    script.respond = accept
    (empty_folder / "many").write_text('{"body": 1}\n' + line)
    told = tarry("publish", "t", "--file", "many", code=2).err
    assert word in told
    assert told.endswith("; nothing of it was published\n")
    assert script.requests == []


def _many(folder: Path) -> None:
    (folder / "many").write_text("\n" + "".join(f'{{"body": {number}}}\n' for number in range(2, 2502)))


def test_what_the_server_refuses_of_a_file(script: ScriptedServer, empty_folder: Path, tarry: CommandLine) -> None:
    def respond(request: Request) -> Answer:
        if len(script.requests) == 1:
            return accept(request)
        text = "'5x' is not a duration"
        detail = f"/messages/500/delay: {text} (and 1 more)"
        return problem(400, detail=detail, errors=[{"pointer": "/messages/500/delay", "detail": text}])

    script.respond = respond
    _many(empty_folder)
    assert tarry("publish", "t", "--file", "many", code=2).err == (
        "tarry: line 1502: delay: '5x' is not a duration (and 1 more); 1000 of its messages were published "
        "(lines 1 to 1001): mend it and go on with --from-line 1002\n"
    )
    script.respond = accept
    assert tarry("publish", "t", "--file", "many", "--from-line", "1002").err == "published 1500 messages to t\n"
    assert script.requests[2].json["messages"][0] == {"body": 1002}


@pytest.mark.parametrize("executed", [False, None])
def test_a_file_whose_server_goes_away(
    script: ScriptedServer,
    empty_folder: Path,
    executed: bool | None,
    monkeypatch: pytest.MonkeyPatch,
    tarry: CommandLine,
) -> None:
    monkeypatch.setattr(server, "_PATIENCE", 0.0)
    more = {} if executed is None else {"executed": executed}
    script.respond = lambda request: accept(request) if len(script.requests) == 1 else problem(503, **more)
    _many(empty_folder)
    told = tarry("publish", "t", "--file", "many", code=75).err
    assert "; 1000 of its messages were published (lines 1 to 1001)" in told
    doubt = ", and up to 1000 more may have been taken (lines 1002 to 2001): go on with --from-line 1002, or 2002 if"
    assert (doubt in told) == (executed is None)
    assert ("1001): go on with --from-line 1002\n" in told) == (executed is False)


def test_a_file_that_is_interrupted(
    script: ScriptedServer, empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = threading.Event()

    def respond(request: Request) -> Answer:
        if len(script.requests) == 3:  # the last, which has 500
            os.kill(os.getpid(), signal.SIGINT)
            ended.wait(10)
        return accept(request)

    script.respond = respond
    _many(empty_folder)
    try:
        with pytest.raises(SystemExit, match="130"):
            run(["publish", "t", "--file", "many"])
    finally:
        ended.set()
    assert capsys.readouterr().err == (
        "2000 of its messages were published (lines 1 to 2001), and up to 500 more may have been taken "
        "(lines 2002 to 2501): go on with --from-line 2002, or 2502 if they were\n"
    )


def test_stdin_that_is_bad_in_the_middle(script: ScriptedServer, tarry: CommandLine) -> None:
    script.respond = accept
    read = b'{"body": 1}\n' * 2000 + b'{"body": "\\ud800"}\n'
    told = tarry("publish", "t", "--file", "-", code=2, stdin=read).err
    assert told.startswith("tarry: line 2001: body has half a character in it")
    assert "1000 of its messages were published (lines 1 to 1000): mend it and go on with --from-line 1001" in told


@pytest.mark.parametrize("wrong", [["1", "--from-line", "2"], ["--file", "many", "--from-line", "0"]])
def test_from_line_goes_with_a_file(
    script: ScriptedServer, wrong: list[str], empty_folder: Path, tarry: CommandLine
) -> None:
    _many(empty_folder)
    tarry("publish", "t", *wrong, code=2)
    assert script.requests == []


def test_a_file_that_is_not_there(script: ScriptedServer, tarry: CommandLine) -> None:
    assert "none" in tarry("publish", "t", "--file", "none", code=1).err


def test_exec_with_nothing_behind_it(script: ScriptedServer, tarry: CommandLine) -> None:
    printed = tarry("consume", "t", "--group", "g", "--from", "earliest", "--exec", code=2)
    assert "--exec: say what to run" in printed.err
    assert script.requests == []


def test_whoever_has_no_key_is_told_where_it_comes_from(script: ScriptedServer, tarry: CommandLine) -> None:
    detail = "send a key, as Authorization: Bearer KEY"
    script.respond = lambda request: problem(401 if request.path.startswith("/v1/topics?") else 403, detail=detail)
    told = "; a command takes its key from TARRY_KEY, or from the file that TARRY_KEY_FILE names\n"
    assert tarry("topics", code=1).err == f"tarry: {detail}{told}"
    assert tarry("show", "5", code=1).err == f"tarry: {detail}\n", "another key, and not one at all"


def test_a_name_that_nobody_may_list_has_no_hint(script: ScriptedServer, tarry: CommandLine) -> None:
    detail = "there is no topic 'odr': make it with PUT /v1/topics/odr"
    script.say(problem(404, detail=detail))
    script.respond = lambda _: problem(403)
    assert tarry("groups", "odr", code=3).err == f"tarry: {detail}\n"


def test_cancel(script: ScriptedServer, tarry: CommandLine) -> None:
    script.say(Answer(200, {"result": "cancelled"}))
    assert tarry("cancel", "5", "--json").json == {"id": "5", "result": "cancelled"}


def test_erase_of_one_that_waits(script: ScriptedServer, tarry: CommandLine) -> None:
    script.say(Answer(409, {"type": "/problems/still-waits", "detail": "cancel it first", "result": "waiting"}))
    assert "cancel it first" in tarry("erase", "5", "--yes", code=4).err


def test_erase_of_a_key(script: ScriptedServer, tarry: CommandLine) -> None:
    """One waits, one was taken by retention just then."""

    def respond(request: Request) -> Answer:
        if request.path == "/v1/topics/orders":
            return Answer(200, {"groups": []})
        if request.method == "GET":
            return Answer(200, {"messages": [{"id": str(id_)} for id_ in (5, 6, 7, 6)], "cursor": None})
        erased = {"id": request.path.split("/")[3], "erased_at": "2026-01-01T00:00:00.000Z", "lake": "none"}
        waits = problem(409, detail="it waits for its time: cancel it first")
        return {"/v1/messages/5/erase": waits, "/v1/messages/7/erase": problem(404)}.get(
            request.path, Answer(200, erased | {"lake_at": None})
        )

    script.respond = respond
    command = ["erase", "--topic", "orders", "--key", "customer-7"]
    assert "erase 3 messages of key customer-7 for good" in tarry(*command, code=2).err
    printed = tarry(*command, "--yes", "--json", code=4)
    assert [one["id"] for one in printed.records] == ["6"]
    assert "message 5: it waits for its time: cancel it first" in printed.err


@pytest.mark.parametrize("wrong", [[], ["5", "--topic", "t", "--key", "k"], ["--key", "k"], ["5", "--topic", "t"]])
def test_erase_is_of_a_message_or_of_a_key(wrong: list[str], script: ScriptedServer, tarry: CommandLine) -> None:
    assert "erase takes the ID of a message, or --topic and --key" in tarry("erase", *wrong, "--yes", code=2).err
    script.say(Answer(200, {"messages": [], "cursor": None}), Answer(200, {"groups": []}))
    assert "topic t has no message of key k" in tarry("erase", "--topic", "t", "--key", "k", "--yes", code=3).err


def test_topics(script: ScriptedServer, tarry: CommandLine) -> None:
    record = {"topic": "t", "kind": "cluster", "queues": 4, "accepted": 9, "replaced": 4, "suppressed": 3, "pending": 2}
    script.say(Answer(200, {"topics": [record]}), Answer(200, {"topics": [record]}))
    assert tarry("topics").lines == [
        "topic\tkind\tqueues\taccepted\treplaced\tsuppressed\tpending",
        "t\tcluster\t4\t9\t4\t3\t2",
    ]
    assert tarry("topics", "--json").json == record


@pytest.mark.parametrize("flags", [["--url", "{url}", "--json"], ["--json", "--url={url}"]])
def test_flags_of_all_commands_may_stand_before_the_command(
    flags: list[str], script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine
) -> None:
    url = os.environ["TARRY_URL"]
    monkeypatch.setenv("TARRY_URL", "http://127.0.0.1:9")
    script.say(Answer(200, {"messages": [], "cursor": None}))
    assert tarry(*(flag.format(url=url) for flag in flags), "dead", "list", "orders", "--group", "g") == Printed("", "")
    assert "purge" in tarry("--url", url, "dead", "--help").out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--url", "http://127.0.0.1:9", "topisc"], 'Unknown command "topisc"'),
        (["--url"], "--url is of a command, and there is none: write tarry topics --url"),
        (["--json", "--url=http://h:1"], "there is none: write tarry topics --json --url=http://h:1"),
        (["--json", "serve"], "--json"),
        (["--max", "3", "topics"], 'Unknown command "--max"'),
        (["--key", "tarry_secret", "topics"], "takes its key from TARRY_KEY, or from the file that TARRY_KEY_FILE"),
        (["--key=tarry_secret", "find", "orders"], "--key stands behind its command, and is a message's"),
        (["--json", "--key", "tarry_secret", "find", "orders"], "--key stands behind its command"),
        (["topics", "--key", "tarry_secret"], "takes its key from TARRY_KEY, or from the file that TARRY_KEY_FILE"),
        (["topics", "put", "orders", "--key=tarry_secret"], "takes its key from TARRY_KEY"),
    ],
)
def test_what_is_wrong_behind_such_a_flag_is_named(arguments: list[str], told: str, tarry: CommandLine) -> None:
    err = tarry(*arguments, code=2).err
    assert told in err
    assert "tarry_secret" not in err


@pytest.mark.parametrize("flags", [["--json", "topics"], ["topics", "--json"]])
def test_flags_of_all_commands_may_stand_before_the_command_of_a_group(
    flags: list[str], script: ScriptedServer, tarry: CommandLine
) -> None:
    told = {"topic": "orders"}
    script.say(Answer(200, told))
    assert "KeyError: 'groups'" in tarry(*flags, "rm", "orders", "--dry-run", code=1).err
    script.say(Answer(200, {"topics": [told]}))
    assert tarry(*flags, "--sort", "name").json == told


def test_serve_says_what_its_redis_wants(monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    assert "pip install 'tarry[redis]'" in tarry("serve", "--redis", "redis://127.0.0.1:1/0", code=2).err


def test_dead_list_says_that_there_are_more(script: ScriptedServer, tarry: CommandLine) -> None:
    message = {"topic": "t", "queue": 0, "offset": 0, "body": 1, "attempt": 1, "key": None, "headers": None}
    times = dict.fromkeys(("published_at", "deliver_at", "dead_at"), "2030-01-01T00:00:00.000Z")
    letters = [{**message, **times, "id": str(n), "ordering_key": None, "tag": None, "attempts": []} for n in range(2)]
    script.respond = lambda _: Answer(200, {"messages": letters, "cursor": None})
    printed = tarry("dead", "list", "t", "--group", "g", "--max", "1")
    assert len(printed.lines) == 2
    assert "there are more" in printed.err
    assert tarry("dead", "list", "t", "--group", "g", "--max", "2").err == ""


EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
TOLD = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


@pytest.fixture
def letter(script: ScriptedServer) -> dict[str, Any]:
    """A dead letter of somebody who would like to have the operator's terminal."""
    times = dict.fromkeys(("published_at", "deliver_at", "dead_at"), "2030-01-01T00:00:00.000Z")
    attempts = [{"at": "2030-01-01T00:00:00.000Z", "client": EVIL, "reason": EVIL}]
    place = {"id": "1", "topic": "t", "queue": 0, "offset": 0, "attempt": 1}
    letter = {**times, **place, "body": EVIL, "key": EVIL, "ordering_key": None, "tag": EVIL, "headers": {EVIL: EVIL}}
    letter["attempts"] = attempts
    script.respond = lambda _: Answer(200, {"messages": [letter], "cursor": None})
    return letter


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_of_others_is_obeyed(
    terminal: bool, letter: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tarry: CommandLine
) -> None:
    screen = Terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "500")
    if terminal:
        monkeypatch.setattr(sys, "stdout", screen)
    printed = tarry("dead", "list", "t", "--group", "g")
    shown = screen.getvalue() if terminal else printed.out
    assert shown.count(TOLD) == 2
    assert json.dumps(EVIL) in shown
    assert not re.search("[\x07\x9b\u202e]|\x1b(?!\\[[0-9;]*m)", shown)


def test_json_of_others_is_the_same_json(letter: dict[str, Any], tarry: CommandLine) -> None:
    shown = tarry("dead", "list", "t", "--group", "g", "--json").out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
    told = json.loads(shown)
    assert (told["body"], told["key"], told["headers"], told["attempts"]) == (
        EVIL,
        EVIL,
        {EVIL: EVIL},
        letter["attempts"],
    )


def test_an_error_of_others_is_not_obeyed(script: ScriptedServer, tarry: CommandLine) -> None:
    script.say(problem(409, detail=f"the key {EVIL} is taken"))
    assert f"the key {TOLD} is taken" in tarry("cancel", "5", code=1).err


def test_a_message_on_a_terminal_is_not_obeyed(
    broker: SmallBroker, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine
) -> None:
    broker.backlog.clear()
    broker.backlog.append({"n": EVIL})
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    tarry("consume", "t", "--group", "g", "--max", "1")
    assert json.dumps(EVIL, ensure_ascii=True)[1:-1] in screen.getvalue()
    assert EVIL[0] not in screen.getvalue()


def test_groups_of_all_topics(script: ScriptedServer, tarry: CommandLine) -> None:
    one = {"topic": "t", "group": "g", "backlog": 7, "claimed": 1, "retrying": 2, "dead_letters": 3, "paused": True}
    for _ in range(2):
        script.say(Answer(200, {"groups": [one], "cursor": None}))
    assert tarry("groups", "--sort", "dead_letters").rows[1:] == [["t", "g", "7", "1", "2", "3", "yes"]]
    assert script.requests[0].path == "/v1/groups?sort=dead_letters&max=1000"
    assert tarry("groups", "--json").records == [one]


def test_groups_of_a_topic_are_sorted_by_what_they_have(script: ScriptedServer, tarry: CommandLine) -> None:
    def respond(request: Request) -> Answer:
        name = request.path.rpartition("/")[2]
        if name == "t":
            return Answer(200, {"topic": "t", "groups": [{"group": "a"}, {"group": "b"}]})
        counts: dict[str, Any] = {
            "backlog": 9 if name == "b" else 0,
            "claimed": 0,
            "retries": [],
            "dead_letters": 0,
            "acked": 0,
        }
        return Answer(200, {"topic": "t", "group": name, **counts, "clients": [], "paused": False})

    script.respond = respond
    assert [line.split()[0] for line in tarry("groups", "t", "--sort", "backlog").lines[1:]] == ["b", "a"]


@pytest.fixture
def broker(script: ScriptedServer) -> SmallBroker:
    broker = SmallBroker()
    broker.backlog.extend([{"n": 1}, {"n": 2}, {"n": 3}])

    def respond(request: Request) -> Answer:
        if request.method == "GET":
            return Answer(200, {"topic": "t", "groups": [{"group": "g"}]})
        return broker.respond(request)

    script.respond = respond
    return broker


def test_consume_prints_and_acks(broker: SmallBroker, tarry: CommandLine) -> None:
    printed = tarry("consume", "t", "--group", "g", "--max", "2")
    assert [one["body"] for one in printed.records] == [{"n": 1}, {"n": 2}]
    assert sorted(id_ for request in broker.all("ack") for id_ in request["ids"]) == ["1", "2"]
    assert len(broker.backlog) == 1


def test_consume_without_acks_gives_everything_back(broker: SmallBroker, tarry: CommandLine) -> None:
    printed = tarry("consume", "t", "--group", "g", "--no-ack", "--max", "3")
    assert [one["body"] for one in printed.records] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert broker.all("ack") == []
    assert broker.all("fail") == [{"count": False, "reason": "shown", "retry_after": 0}]


def test_consume_runs_a_command(broker: SmallBroker, empty_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = "import json, sys; n = json.load(sys.stdin)['n']; print(sys.argv[1], n, flush=True); sys.exit(n == 2)"
    command = [sys.executable, "-c", program, "--flag"]
    printed = CommandLine(capfd)("consume", "t", "--group", "g", "--max", "3", "--exec", *command)
    assert printed.lines == ["--flag 1", "--flag 2", "--flag 3"]
    assert "message 2:" in printed.err
    assert [request["ids"] for request in broker.all("fail")] == [["2"]]
    assert broker.all("fail")[0]["reason"].endswith("ended with 1")


def test_config_show(empty_folder: Path, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    (empty_folder / "tarry.toml").write_text('lease = "30s"\n')
    monkeypatch.setenv("TARRY_DSN", "mysql://tarry:secret@db/tarry")
    rows = tarry("config", "show", "--origin", "--listen", "127.0.0.1:9").rows
    assert ["lease", "30s", "tarry.toml"] in rows
    assert ["listen", "127.0.0.1:9", "--listen"] in rows
    assert ["dsn", "mysql://tarry:***@db/tarry", "TARRY_DSN"] in rows
    shown = tarry("config", "show", "--json").records[0]
    assert shown == {"name": "dsn", "value": "mysql://tarry:***@db/tarry"}


@pytest.mark.parametrize("dsn", ["sqlite:///tarry.db", "mysql://u:p@127.0.0.1:9/x"])
def test_migrate_prints_the_sql_and_touches_nothing(dsn: str, empty_folder: Path, tarry: CommandLine) -> None:
    assert "CREATE TABLE" in tarry("migrate", "--print", "--dsn", dsn).out
    assert list(empty_folder.iterdir()) == []


def test_migrate(tarry: CommandLine) -> None:
    assert tarry("migrate").out.startswith("applied 0021")
    assert "up to date" in tarry("migrate").err
