"""The commands and the client against a real server: what a user does on the first day."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.waiting import wait_until
from tarry.client import LeaseLost, NotFound, Tarry
from tarry.service.cli.app import run as run_here
from tarry.service.demo.server_process import ServerProcess, python_path

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {"TARRY_LADDER": "50ms,50ms"}


@pytest.fixture
def run(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """A command, within this process: as one of its own it is tried by the follower below, and by the documents."""
    monkeypatch.setenv("TARRY_URL", server.url)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = run_here(arguments)
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run


def lines(done: subprocess.CompletedProcess[str]) -> list[Any]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_publish_peek_and_consume(run: Run) -> None:
    (receipt,) = lines(run("publish", "cli", "-", "--key", "order-7", "--header", "a=b", "--json", text='{"order": 7}'))
    assert receipt["state"] == "published"
    (peeked,) = lines(run("peek", "cli", "--json", "--queue", str(receipt["queue"])))
    (message,) = lines(run("consume", "cli", "--group", "g", "--from", "earliest", "--json"))
    assert peeked["id"] == message["id"] == receipt["id"]
    assert (message["body"], message["key"], message["headers"]) == ({"order": 7}, "order-7", {"a": "b"})
    assert (peeked["attempt"], message["attempt"]) == (peeked["attempt"], 1)
    assert lines(run("consume", "cli", "--group", "g", "--json")) == []
    assert "cli" in [topic["topic"] for topic in lines(run("topics", "--json"))]


def test_the_nearest_name_is_told_of_what_is_not_there(run: Run, tarry: Tarry) -> None:
    tarry.publish("nearest", 1)
    tarry.put_group("nearest", "billing")
    tarry.put_schedule("nightly", topic="nearest", body=1, cron="0 9 * * *")
    topic = "there is no topic 'nearst' (did you mean \"nearest\"?)"
    group = "topic 'nearest' has no group 'biling' (did you mean \"billing\"?)"
    schedule = "there is no schedule 'nigtly' (did you mean \"nightly\"?)"
    for told, *command in (
        (topic, "cancel", "--topic", "nearst", "--key", "k"),
        (topic, "groups", "nearst"),
        (topic, "find", "nearst", "--key", "k"),
        (topic, "topics", "--delete", "nearst", "--yes"),
        (group, "groups", "nearest", "--pause", "biling"),
        (group, "dead", "list", "nearest", "--group", "biling"),
        (schedule, "schedule", "pause", "nigtly"),
        (schedule, "schedule", "next", "nigtly"),
    ):
        done = run(*command)
        assert (done.returncode, told in done.stderr) == (3, True), done.stderr
    tarry.delete_schedule("nightly")
    done = run("groups", "nothing-like-it")
    assert "there is no topic 'nothing-like-it': make it" in done.stderr


def test_a_topic_with_messages_is_removed_with_force(run: Run, tarry: Tarry) -> None:
    tarry.publish("full", 1, delay="1h")
    done = run("topics", "--delete", "full", "--yes")
    assert done.returncode == 1
    assert "or say --force, and they are dropped" in done.stderr
    assert run("topics", "--delete", "full", "--yes", "--force").returncode == 0


def settings(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, ...]]:
    """By its name: the value, whose it is, and what would be without."""
    assert done.returncode == 0, done.stderr
    head, *rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert head == ["setting", "value", "whose", "default"]
    return {name: tuple(told) for name, *told in rows}


def test_a_topic_is_made_and_changed(run: Run, tarry: Tarry) -> None:
    made = run("topics", "put", "made", "--queues", "2", "--ladder", "1m,5m", "--max-rate", "200")
    told = settings(made)
    assert made.stderr == "made\n"
    assert (told["queues"], told["ladder"]) == (("2", "topic", "1"), ("1m,5m", "topic", "50ms,50ms"))
    changed = run("topics", "put", "made", "--ladder", "default", "--retention", "30d", "--json")
    (after,) = lines(changed)
    assert changed.stderr == ""
    was = ("queues", "max_rate", "ladder", "retention")
    assert [after[name] for name in was] == [2, 200, None, 30 * 86_400_000], "what is not said stays"
    assert after["defaults"]["ladder"] == [50, 50]
    assert {name: tarry.topic("made")[name] for name in after} == after
    told = settings(run("topics", "show", "made"))
    assert (told["ladder"], told["retention"]) == (("50ms,50ms", "server", "50ms,50ms"), ("30d", "topic", "1w"))
    assert (told["max-rate"], told["release-rate"]) == (
        ("200", "topic", "no limit"),
        ("no limit", "server", "no limit"),
    )
    (shown,) = lines(run("--json", "topics", "show", "made"))
    assert shown["defaults"] == after["defaults"]
    assert settings(run("topics", "put", "made", "--max-rate", "default"))["max-rate"][0] == "no limit"
    assert "made" in [topic["topic"] for topic in lines(run("topics", "--json"))], "alone it lists, as before"


def test_what_cannot_be_of_a_topic_changes_nothing(run: Run, tarry: Tarry) -> None:
    tarry.put_topic("firm", queues=2)
    tarry.put_topic("strict", ordered=True)
    for told, code, *flags in (
        ("--queues: topic 'firm' has 2 queues, and queues are never taken away", 1, "firm", "--queues", "1"),
        ("--ordered: topic 'firm' is not ordered, and stays so", 1, "firm", "--ordered"),
        ("--ordered: topic 'strict' is ordered, and stays so", 1, "strict", "--no-ordered"),
        ("--queues: topic 'strict' is ordered and has 1 queue for good", 1, "strict", "--queues", "2"),
        ("--max-rate: it must be a whole number from 1", 2, "firm", "--max-rate", "-1"),
        ("--ladder, rung 2: it lies between", 2, "firm", "--max-rate", "7", "--ladder", "1s,4000d"),
        ("topic 'a b': a name is", 2, "a b"),
    ):
        done = run("topics", "put", *flags)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert told in done.stderr
    assert (tarry.topic("firm")["queues"], tarry.topic("firm")["max_rate"]) == (2, None)


def test_a_group_is_made_changed_and_removed(run: Run, tarry: Tarry) -> None:
    tarry.put_topic("grouped", ladder=["1s"])
    made = run("groups", "put", "grouped", "billing", "--concurrency", "5")
    told = settings(made)
    assert made.stderr == "made\n"
    assert told["ladder"] == ("1s", "topic", "1s (topic)")
    assert told["concurrency"] == ("5", "group", "no limit")
    told = settings(run("groups", "put", "grouped", "billing", "--ladder", "none"))
    assert (told["ladder"][:2], told["concurrency"][0]) == (("none", "group"), "5"), "what is not said stays"
    told = settings(run("groups", "put", "grouped", "billing", "--ladder", "default", "--concurrency", "default"))
    assert (told["ladder"][:2], told["concurrency"][:2]) == (("1s", "topic"), ("no limit", "server"))
    assert settings(run("groups", "show", "grouped", "billing")) == told
    assert [one["group"] for one in lines(run("groups", "grouped", "--json"))] == ["billing"]
    blocks = run("groups", "put", "grouped", "billing", "--on-exhausted", "block")
    assert blocks.returncode == 2
    assert "--on-exhausted: block is for ordered topics" in blocks.stderr
    slip = run("groups", "put", "gruoped", "billing")
    assert slip.returncode == 3
    assert "there is no topic 'gruoped' (did you mean \"grouped\"?): make it with tarry topics put" in slip.stderr
    with pytest.raises(NotFound):
        tarry.topic("gruoped")
    assert run("groups", "show", "grouped", "mail").returncode == 3
    assert run("groups", "rm", "grouped", "billing").returncode == 2, "nobody can be asked"
    assert run("groups", "rm", "grouped", "billing", "--dry-run").returncode == 0
    assert settings(run("groups", "show", "grouped", "billing")) == told
    assert run("groups", "rm", "grouped", "billing", "--yes").returncode == 0
    assert run("topics", "rm", "grouped", "--yes").returncode == 0
    assert run("topics", "show", "grouped").returncode == 3


def test_a_topic_that_is_called_as_a_command_is_listed(run: Run, tarry: Tarry) -> None:
    tarry.put_topic("put")
    tarry.put_group("put", "billing")
    assert [one["group"] for one in lines(run("groups", "--json", "--", "put"))] == ["billing"]


def test_a_slip_of_the_keys_makes_no_topic_and_no_group(run: Run, tarry: Tarry) -> None:
    tarry.publish("slipped", 1)
    tarry.put_group("slipped", "billing")
    before = [record["topic"] for record in tarry.topics()]
    for command in (
        ("consume", "sliped", "--group", "billing"),
        ("consume", "sliped", "--group", "billing", "--no-ack"),
        ("consume", "sliped", "--group", "billing", "--from", "earliest"),
        ("peek", "sliped"),
    ):
        done = run(*command)
        assert done.returncode == 3, done.stdout
        assert 'there is no topic "sliped" (did you mean "slipped"?)' in done.stderr
    for more in ((), ("--no-ack",), ("--follow",)):
        done = run("consume", "slipped", "--group", "biling", *more)
        assert done.returncode == 3, done.stdout
        assert 'slipped has no group "biling" (did you mean "billing"?); --from earliest' in done.stderr
    assert [record["topic"] for record in tarry.topics()] == before
    assert [record["group"] for record in tarry.topic("slipped")["groups"]] == ["billing"]
    assert len(lines(run("consume", "slipped", "--group", "billing", "--json"))) == 1
    assert len(lines(run("consume", "slipped", "--group", "new", "--from", "earliest", "--json"))) == 1


def test_cancel_and_its_exit_codes(run: Run) -> None:
    (waiting,) = lines(run("publish", "cancels", "1", "--delay", "1h", "--json"))
    (gone,) = lines(run("publish", "cancels", "2", "--json"))
    assert run("cancel", waiting["id"]).returncode == 0
    assert run("cancel", waiting["id"]).returncode == 0
    assert run("cancel", gone["id"]).returncode == 4
    assert run("cancel", "1").returncode == 3
    assert run("peek", "nowhere").returncode == 3
    assert run("publish", "cancels", "1", "--delay", "-1s").returncode == 2
    (line,) = lines(run("publish", "cancels", "--file", "-", "--json", text='{"body": 1, "delay": 3600000}'))
    assert line["state"] == "scheduled"


@pytest.mark.parametrize(
    "command",
    [
        "publish units 1 --delay 60",
        "timer set units order-1 1 --delay 60",
        "timer set units order-1 1 --delay 1h --mode debounce --max-wait 60",
        "reschedule 1 --delay 60",
        "push set units http://127.0.0.1:9/ --group g --secret-file none --timeout 60",
        "schedule put units 1 --topic units --every 60",
        "schedule put units 1 --topic units --every 1h --jitter 60",
        "schedule put units 1 --topic units --every 1h --misfire 60",
    ],
)
def test_a_duration_has_its_unit(run: Run, command: str) -> None:
    bare = run(*command.split())
    told = " ".join(bare.stderr.replace("│", " ").split())  # it is framed
    flag = command.split()[-2]
    assert bare.returncode == 2, told
    assert f'{flag}: 60 has no unit: write "60s" for seconds' in told


def test_a_time_that_has_been(run: Run) -> None:
    past = run("publish", "units", "1", "--delay", "-5s")
    told = " ".join(past.stderr.replace("│", " ").split())  # it is framed
    assert (past.returncode, "--delay: -5s is no duration, which is not negative: write 10m, 48h or PT10M" in told) == (
        2,
        True,
    ), told


@pytest.mark.parametrize("body", ["NaN", '"\\ud800"'])
@pytest.mark.parametrize("command", ["publish odd", "timer set odd order-1", "schedule put odd --topic odd --every 1h"])
def test_a_body_that_json_cannot_hold(run: Run, command: str, body: str) -> None:
    wrong = run(*command.split(), body)
    assert (wrong.returncode, "the body is not JSON" in wrong.stderr) == (2, True), wrong.stderr


def test_what_an_operator_looks_up(run: Run, tarry: Tarry) -> None:
    def told(*arguments: str) -> list[Any]:
        return lines(run(*arguments, "--json"))

    ids = [tarry.publish("looked", n, key="order-7", delay="90m").id for n in range(3)]
    tarry.publish("looked", 3)
    (shown,) = told("show", ids[0])
    assert (shown["body"], [one["what"] for one in shown["life"]]) == (0, ["scheduled"])
    assert [one["id"] for one in told("find", "looked", "--key", "order-7")] == ids
    assert [one["id"] for one in told("find", "looked", "--state", "scheduled", "--max", "2")] == ids[:2]
    assert {one["id"] for one in told("find", "looked")} >= set(ids)
    (moved,) = told("reschedule", ids[0], "--delay", "20d")
    assert told("show", ids[0])[0]["deliver_at"] == moved["deliver_at"]
    found = told("find", "looked", "--state", "scheduled", "--from", moved["deliver_at"])
    assert [one["id"] for one in found] == ids[:1]
    (day,) = told("upcoming", "looked")
    (month,) = told("upcoming", "looked", "--next", "month")
    counts = [[one["messages"] for one in found["buckets"]] for found in (day, month)]
    assert [len(one) for one in counts] == [24, 30]
    assert [sum(one) for one in counts] == [2, 3]
    (seen,) = told("top", "--sort", "name", "--max", "100")
    (looked,) = (topic for topic in seen["topics"] if topic["topic"] == "looked")
    assert (looked["pending"], len(seen["nodes"])) == (3, 1)


def test_timers_by_key(run: Run) -> None:
    (made,) = lines(run("timer", "set", "timed", "order-7", '{"order": 7}', "--delay", "1h", "--json"))
    (second,) = lines(run("timer", "set", "timed", "order-7", "-", "--delay", "2h", "--json", text="2"))
    assert second["replaced"] == made["id"]
    missed = run("timer", "set", "timed", "order-7", "3", "--delay", "1h", "--match", str(made["revision"]))
    assert (missed.returncode, str(second["revision"]) in missed.stderr) == (1, True)
    assert lines(run("timer", "show", "timed", "order-7", "--json")) == [second | {"replaced": None}]
    assert lines(run("timer", "cancel", "timed", "order-7", "--json")) == [{"key": "order-7", "result": "cancelled"}]
    assert run("timer", "show", "timed", "order-8").returncode == 3
    lines(run("timer", "set", "timed", "order-3", "1", "--delay", "1h", "--json"))
    listed = lines(run("timer", "list", "timed", "--json"))
    assert [(one["key"], one["state"]) for one in listed] == [("order-3", "scheduled"), ("order-7", "cancelled")]
    assert "order-3" in run("timer", "list", "timed", "--max", "1").stdout
    lines(run("timer", "set", "timed", "order-7", "1", "--delay", "1h", "--json"))
    lines(run("publish", "timed", "1", "--key", "order-7", "--delay", "1h", "--json"))
    cancelled = lines(run("cancel", "--topic", "timed", "--key", "order-7", "--json"))
    assert cancelled == [{"cancelled": 2, "too_late": 0}]
    assert run("cancel", "--topic", "timed").returncode == 2


def test_push(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"whsec_{'A' * 32}\n")
    where = ("hooked", "--group", "shop", "--json")
    url = "https://hooks.invalid/in"
    (made,) = lines(run("push", "set", "hooked", url, *where[1:], "--secret-file", str(secret), "--timeout", "2s"))
    assert (made["url"], made["timeout"], made["secrets"], made["state"]) == (url, 2000, 1, "on")
    assert lines(run("push", "show", *where)) == [made]
    two = f"whsec_{'A' * 32} whsec_{'B' * 32}"
    (changed,) = lines(run("push", "set", "hooked", url, *where[1:], "--secret-file", "-", text=two))
    assert (changed["timeout"], changed["secrets"]) == (10_000, 2)
    wrong = run("push", "set", "hooked", "https://127.0.0.1/", *where[1:], "--secret-file", str(secret))
    assert (wrong.returncode, "public internet" in wrong.stderr) == (2, True)
    assert run("push", "set", "hooked", url, *where[1:], "--secret-file", str(tmp_path / "none")).returncode == 2
    assert lines(run("push", "rm", *where)) == [{"topic": "hooked", "group": "shop", "result": "removed"}]
    assert [run("push", verb, *where).returncode for verb in ("show", "rm")] == [3, 3]


def test_schedules(run: Run, tarry: Tarry, tmp_path: Path) -> None:
    spec = ("--topic", "again", "--cron", "0 9 * * *", "--timezone", "Europe/Berlin", "--json")
    (would,) = lines(run("schedule", "put", "daily", "1", *spec, "--dry-run"))
    assert (would["revision"], len(would["next"])) == (0, 5)
    plain = run("schedule", "put", "daily", "1", *spec[:-1], "--dry-run")
    assert [one in plain.stdout for one in would["next"]] == [True] * 5
    assert run("schedule", "show", "daily").returncode == 3
    (made,) = lines(run("schedule", "put", "daily", "1", *spec))
    assert lines(run("schedule", "next", "daily", "--count", "2", "--json"))[0]["at"] == made["next"][0]
    assert lines(run("schedule", "pause", "daily", "--json"))[0]["paused"]
    (sent,) = lines(run("schedule", "run", "daily", "--json"))
    assert tarry.message(sent["id"])["headers"]["tarry-schedule"] == "daily"
    assert not lines(run("schedule", "resume", "daily", "--json"))[0]["paused"]
    wrong = run("schedule", "put", "daily", "1", "--topic", "again", "--cron", "0 25 * * *")
    assert (wrong.returncode, "the hour field '25'" in wrong.stderr) == (2, True), wrong.stderr
    (kept,) = lines(run("schedule", "put", "often", "1", *spec, "--queue-while", "billing", "--dry-run"))
    assert (kept["spec"]["overlap"], kept["spec"]["group"]) == ("queue_one", "billing")
    assert run("schedule", "put", "often", "1", *spec, "--queue-while", "a", "--skip-while", "b").returncode == 2
    file = tmp_path / "schedules.toml"
    file.write_text(
        '[hourly]\ntopic = "again"\nevery = "1h"\nbody = {a = 1}\n[nightly]\ntopic = "again"\nevery = "1d"\nbody = 2\n'
        'overlap = "queue_one"\ngroup = "billing"\n'
    )
    told = lines(run("schedule", "apply", str(file), "--prune", "--dry-run", "--json"))
    assert [(one["name"], one["what"]) for one in told] == [
        ("hourly", "make"),
        ("nightly", "make"),
        ("daily", "remove"),
    ]
    assert [one.name for one in tarry.schedules()] == ["daily"]
    lines(run("schedule", "apply", str(file), "--prune", "--yes", "--json"))
    assert [one.name for one in tarry.schedules()] == ["hourly", "nightly"]
    file.write_text(file.read_text().replace("1h", "2h"))
    again = lines(run("schedule", "apply", str(file), "--json"))
    assert [one["what"] for one in again] == ["change", "leave"]
    over = '[over]\ntopic = "again"\nevery = "1h"\nbody = 1\nends_at = "2020-01-01T00:00:00Z"\n'
    file.write_text(file.read_text() + over)
    again = lines(run("schedule", "apply", str(file), "--json"))
    assert [one["what"] for one in again] == ["leave", "leave", "ended"], "a file may name what has ended"
    file.write_text(file.read_text().replace("[over]", "[over]\ntimezone = 'UTC'"))
    wrong = run("schedule", "apply", str(file))
    assert (wrong.returncode, "timezone" in wrong.stderr) == (2, True), wrong.stderr
    put = run("schedule", "put", "over", "1", *spec, "--ends-at", "2020-01-01T00:00:00Z")
    assert (put.returncode, "/ends_at: no fire time comes until then" in put.stderr) == (2, True), put.stderr
    file.write_text("[hourly]\ntopik = 1\n")
    wrong = run("schedule", "apply", str(file))
    assert (wrong.returncode, "did you mean topic?" in wrong.stderr) == (2, True)
    file.write_text(
        "[a]\ntopic = 'again'\nbody = 1\ncron = '0 25 * * *'\n[b]\ntopic = 'again'\nbody = 07:32:00\nevery = '1h'\n"
        "[c]\ntopic = 'again'\nbody = 1\nevery = 3600\n[d]\ntopic = 'again'\nbody = 1\nevery = '3h'\n"
    )
    wrong = run("schedule", "apply", str(file))
    assert wrong.returncode == 2
    told = wrong.stderr.replace(f"{file}: ", "").splitlines()
    assert [one.removeprefix("tarry: ")[:12] for one in told] == ["[a]: /cron: ", "[b]: body: a", "[c]: every: "]
    listed = lines(run("schedule", "list", "--json"))
    assert [one["spec"]["every"] for one in listed] == ["2h", "1d"]
    assert run("schedule", "rm", "hourly").returncode == 2, "it asks"
    assert lines(run("schedule", "rm", "hourly", "--yes", "--json")) == [
        {"name": "hourly", "result": "removed", "unsent": []}
    ]


def test_a_command_that_fails_fails_its_message(run: Run, tarry: Tarry) -> None:
    receipts = tarry.publish_many("exec", [{"body": n} for n in (0, 1)])
    # The command ends with the body as its code: 1 fails, and so do its two retries.
    program = "import sys; print('ran', flush=True); sys.exit(int(sys.stdin.read()))"
    done = run("consume", "exec", "--group", "g", "--from", "earliest", "--exec", sys.executable, "-c", program)
    assert done.returncode == 0
    assert done.stdout.split() == ["ran"] * 4
    (letter,) = tarry.dead("exec", "g")
    assert letter.message.id == receipts[1].id
    assert len(letter.attempts) == 3
    assert letter.attempts[0]["reason"].endswith("ended with 1")


def test_several_topics_and_a_command_that_knows_which(run: Run, tarry: Tarry, server: ServerProcess) -> None:
    topics = ("exec-orders", "exec-mails", "exec-bills")
    for topic in topics:
        tarry.publish_many(topic, [{"body": 1}, {"body": 2}])
    program = "import os, sys; print(os.environ['TARRY_TOPIC'], sys.stdin.read(), flush=True)"
    command = ("--exec", sys.executable, "-c", program)
    done = run("consume", *topics, "--group", "g", "--from", "earliest", *command)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(f"{topic} {body}" for topic in topics for body in (1, 2))
    assert lines(run("consume", *topics, "--group", "g")) == []


def test_several_topics_are_printed_up_to_a_number(run: Run, tarry: Tarry) -> None:
    for topic in ("print-a", "print-b"):
        tarry.publish_many(topic, [{"body": topic}, {"body": topic}])
    here = ("consume", "print-a", "print-b", "--group", "g")
    shown = lines(run(*here, "--from", "earliest", "--no-ack", "--max", "3"))
    assert [one["topic"] for one in shown] == ["print-a", "print-a", "print-b"]
    first = lines(run(*here, "--max", "3"))
    rest = lines(run(*here))
    assert sorted(one["topic"] for one in (*first, *rest)) == ["print-a", "print-a", "print-b", "print-b"]
    assert len(first) == 3
    assert {one["attempt"] for one in (*first, *rest)} == {1}  # what was claimed beyond the number went back uncounted
    missing = run("consume", "print-a", "print-bb", "--group", "g")
    assert missing.returncode == 3
    assert "print-b" in missing.stderr


def test_doctor_beside_a_server(run: Run, server: ServerProcess) -> None:
    listen = server.url.removeprefix("http://")
    found = {line["check"]: line for line in lines(run("doctor", "--json", "--dsn", server.dsn, "--listen", listen))}
    assert found["store"]["detail"].endswith("in use by a server")
    assert (found["schema"]["state"], found["port"]["state"]) == ("ok", "ok")


def test_never_early_and_soon(tarry: Tarry) -> None:
    due = [datetime.now(UTC) + timedelta(milliseconds=300 + 10 * n) for n in range(50)]
    tarry.publish_many("soon", [{"body": n, "deliver_at": at} for n, at in enumerate(due)])
    for message in tarry.consume("soon", "g", limit=50):
        late = datetime.now(UTC) - due[message.body]
        with message:
            assert timedelta(0) <= late < timedelta(seconds=5)


def test_a_lease_that_is_over_is_lost(tarry: Tarry) -> None:
    tarry.publish("over", 1)
    claim = tarry.claim("over", "g", lease="100ms")
    assert claim is not None
    again = tarry.claim("over", "g", wait="5s")
    assert again is not None
    assert again.messages[0].attempt == 2
    with pytest.raises(LeaseLost):
        tarry.ack(claim)
    assert tarry.ack(again) == 1
    assert tarry.ack(again) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_follower_ends_on_a_signal(server: ServerProcess, tarry: Tarry, number: int, tmp_path: Path) -> None:
    topic = f"follow-{number}"
    command = [
        sys.executable,
        "-m",
        "tarry.service.cli.app",
        "consume",
        topic,
        "--group",
        "g",
        "--from",
        "earliest",
        "--follow",
    ]
    environment = os.environ | python_path() | {"TARRY_URL": server.url}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        tarry.publish(topic, "one")
        assert json.loads(follower.stdout.readline())["body"] == "one"
        wait_until(lambda: tarry.group(topic, "g")["acked"] == 1)
        follower.send_signal(number)
        _, errors = follower.communicate(timeout=30)
    assert follower.returncode == 130
    assert errors == ""
    assert tarry.group(topic, "g")["acked"] == 1
