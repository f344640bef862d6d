"""Seek, replay, redrive and purge through the front door, by the client and the command line."""

import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.commands import command
from support.server import client_of, start_server
from support.waiting import wait_until
from tarry.client import LeaseLost, Tarry
from tarry.service.demo.server_process import ServerProcess, python_path


def lines(done: subprocess.CompletedProcess[str]) -> list[Any]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def take(tarry: Tarry, topic: str, group: str, limit: int | None = None) -> list[Any]:
    """Acks what comes, in the order of the bodies."""
    got: list[Any] = []
    for message in tarry.consume(topic, group, max=100, wait="500ms", limit=limit, idle_timeout=0.7):
        with message:
            assert message.attempt == 1
            got.append(message.body)
    return sorted(got)


def test_a_group_is_paused(tarry: Tarry, server: ServerProcess) -> None:
    """A restart ends no pause."""
    tarry.publish("pause", "now")
    assert tarry.claim("pause", "g", max=1, lease="1h") is not None
    tarry.publish("pause", "later")
    (paused,) = lines(command(server.url, "groups", "pause", "--pause", "g", "--json"))
    assert (paused["group"], paused["paused"]) == ("g", True)
    assert tarry.claim("pause", "g") is None
    server.kill()
    server.start()
    assert tarry.claim("pause", "g") is None
    told = command(server.url, "groups", "pause")
    assert "yes" in told.stdout
    (state,) = lines(command(server.url, "groups", "pause", "--json"))
    assert (state["paused"], state["backlog"], state["claimed"]) == (True, 1, 1)
    (resumed,) = lines(command(server.url, "groups", "pause", "--resume", "g", "--json"))
    assert resumed["paused"] is False
    claim = tarry.claim("pause", "g", wait="1s")
    assert claim is not None
    assert [message.body for message in claim.messages] == ["later"]
    assert command(server.url, "groups", "pause", "--pause", "g", "--resume", "g").returncode == 2
    assert command(server.url, "groups", "pause", "--pause", "nobody").returncode == 3


def make_letters(tarry: Tarry, topic: str, group: str, count: int, reason: str = "no ink") -> None:
    tarry.put_group(topic, group, ladder=[])
    before = tarry.group(topic, group)["dead_letters"]
    tarry.publish_many(topic, [{"body": n, "key": f"k{n % 2}"} for n in range(count)])
    while (claim := tarry.claim(topic, group, max=1000, wait="1s")) is not None:
        tarry.fail(claim, reason=reason)
        if tarry.group(topic, group)["dead_letters"] >= before + count:
            return


def test_seek(tarry: Tarry, server: ServerProcess) -> None:
    tarry.publish_many("seek", [{"body": n} for n in range(5)])
    between = datetime.now(UTC) + timedelta(milliseconds=1)
    wait_until(lambda: datetime.now(UTC) > between)
    tarry.publish_many("seek", [{"body": n} for n in range(5, 10)])
    assert take(tarry, "seek", "g", 10) == take(tarry, "seek", "other", 10) == list(range(10))
    assert tarry.seek("seek", "g", "earliest", dry_run=True) == {0: 0}
    assert tarry.group("seek", "g")["backlog"] == 0
    assert tarry.seek("seek", "g", "earliest") == {0: 0}
    claim = tarry.claim("seek", "g", max=3)
    assert claim is not None
    assert tarry.seek("seek", "g", between) == {0: 5}
    with pytest.raises(LeaseLost):
        tarry.ack(claim)
    assert take(tarry, "seek", "g", 5) == list(range(5, 10))
    assert command(server.url, "seek", "seek", "--group", "g", "--to", "8").returncode == 2  # who could say yes?
    moved = lines(command(server.url, "seek", "seek", "--group", "g", "--to", "8", "--yes", "--json"))
    assert moved == [{"queue": 0, "offset": 8, "before": 10, "dry_run": False}]
    assert take(tarry, "seek", "g", 2) == [8, 9]
    assert tarry.group("seek", "other")["backlog"] == 0
    (one,) = [line for line in lines(command(server.url, "groups", "seek", "--json")) if line["group"] == "g"]
    assert (one["backlog"], one["acked"]) == (0, 17)


def test_replay_and_a_group_that_begins_at_a_time(tarry: Tarry) -> None:
    tarry.publish_many("again", [{"body": n} for n in range(700)])
    assert len(take(tarry, "again", "g", 700)) == 700
    assert tarry.replay("again", "g", 10, 13, dry_run=True) == 3
    assert tarry.replay("again", "g", "earliest") == 700
    assert take(tarry, "again", "g", 700) == list(range(700))
    ranges = [(0, 2), (5, 7), (9, 10)]
    done = [tarry.replay("again", "g", start, end, queue=0, name="monday") for start, end in (*ranges, *ranges)]
    assert done == [2, 2, 1, 0, 0, 0], "under one name nothing comes twice"
    assert take(tarry, "again", "g", 5) == [0, 1, 5, 6, 9]
    tarry.put_group("again", "late", start=datetime.now(UTC) + timedelta(hours=1))
    assert tarry.group("again", "late")["backlog"] == 0


def test_redrive_and_purge(tarry: Tarry, server: ServerProcess) -> None:
    make_letters(tarry, "poison", "g", 450)
    found = [letter.message.body for letter in tarry.dead_letters("poison", "g", key="k1", reason="INK")]
    assert sorted(found) == list(range(1, 450, 2))
    first, second, *_ = tarry.dead("poison", "g")
    assert tarry.purge("poison", "g", [first.message.id]) == 1
    assert tarry.redrive("poison", "g", [second.message.id]) == 1
    assert take(tarry, "poison", "g", 1) == [second.message.body]
    assert lines(command(server.url, "redrive", "poison", "--group", "g", "--dry-run", "--json")) == [
        {"redriven": 448, "dry_run": True}
    ]
    assert lines(command(server.url, "redrive", "poison", "--group", "g", "--json")) == [
        {"redriven": 448, "dry_run": False}
    ]
    assert len(take(tarry, "poison", "g", 448)) == 448
    state = tarry.group("poison", "g")
    assert (state["dead_letters"], state["acked"], state["redriven"], state["dead"]) == (0, 449, 449, 450)


def test_a_message_says_how_late_it_is_and_why(tarry: Tarry, server: ServerProcess) -> None:
    """By the command: claimed late, paused, without a client, behind others; and why it had died, after a redrive."""
    tarry.put_topic("late", queues=1)
    for group in ("quick", "paused", "idle", "behind"):
        tarry.put_group("late", group, ladder=[])
    first = tarry.publish("late", "first")
    receipt = tarry.publish("late", 1, delay="1100ms", key="k")
    tarry.pause("late", "paused")
    held = tarry.claim("late", "behind", max=1, wait="1s")
    assert held is not None
    assert [message.id for message in held.messages] == [first.id]
    took = take_and_fail(tarry, "late", "quick", receipt.id, reason="printer on fire")
    wait_until(lambda: "so far" in command(server.url, "show", receipt.id).stdout, seconds=20)
    shown = dict(line.split("\t", 1) for line in command(server.url, "show", receipt.id).stdout.splitlines())
    assert re.fullmatch(
        r"\d+ ms: (\d+ ms until it was in its queue, )?\d+ ms until it was claimed", shown["late for quick"]
    )
    assert shown["late for paused"].endswith("the group is paused")
    assert shown["late for idle"].endswith("no client consumes for the group")
    assert shown["late for behind"].endswith("it is the next of its queue")
    life = lines(command(server.url, "show", receipt.id, "--json"))[0]["life"]
    assert [("late" in one, one["what"]) for one in life if "late" in one] == [(True, "promoted"), (True, "claimed")]
    assert tarry.redrive("late", "quick", reason="printer*") == took
    for _ in range(2):  # on the ladder, and back
        reasons = [one.get("reason") for one in lines(command(server.url, "show", receipt.id, "--json"))[0]["life"]]
        assert "printer on fire" in reasons
        tarry.claim("late", "quick", wait="5s")


def take_and_fail(tarry: Tarry, topic: str, group: str, last: str, reason: str) -> int:
    """How many there were up to this one."""
    count = 0
    while (claim := tarry.claim(topic, group, wait="20s")) is not None:
        tarry.fail(claim, reason=reason)
        count += len(claim.messages)
        if last in [message.id for message in claim.messages]:
            return count
    raise AssertionError("it never came")


def test_letters_are_sent_again_by_what_they_say(tarry: Tarry, server: ServerProcess) -> None:
    """Every other one has the key k1; a hundred of 1,300 have another reason than the rest."""
    make_letters(tarry, "why", "g", 1_200)
    make_letters(tarry, "why", "g", 100, reason="no route to smtp-7")
    redrive = ["redrive", "why", "--group", "g", "--json"]
    for what, many in (
        (["--reason", "no route to*"], 100),
        (["--reason", "no route"], 0),
        (["--reason", "no route to smtp-7", "--key", "k1"], 50),
        (["--key", "k1"], 650),
        (["--tag", "t"], 0),
        (["--reason", "no route to*", "--to", "2020-01-01T00:00:00Z"], 0),
    ):
        assert lines(command(server.url, *redrive, *what, "--dry-run")) == [{"redriven": many, "dry_run": True}]
    none = command(server.url, *redrive, "--reason", "nobody's")
    assert lines(none) == [{"redriven": 0, "dry_run": False}]
    assert "no dead letter fits" in none.stderr
    some = list(tarry.dead_letters("why", "g", reason="no route"))[:7]
    of_key = sum(letter.message.key == "k1" for letter in some)
    ids = [letter.message.id for letter in some]
    assert tarry.redrive("why", "g", ids, reason="no route*", key="k1", dry_run=True) == of_key
    assert lines(command(server.url, *redrive, "--reason", "no route to*")) == [{"redriven": 100, "dry_run": False}]
    assert len(take(tarry, "why", "g", 100)) == 100
    assert tarry.purge("why", "g", key="k0") == 600
    assert tarry.group("why", "g")["dead_letters"] == 600


def test_a_long_redrive_is_stopped(tarry: Tarry, server: ServerProcess) -> None:
    """At ten a second; whoever stops it has some redriven, and the rest are dead letters as before."""
    make_letters(tarry, "slow", "g", 100)
    process = subprocess.Popen(
        [sys.executable, "-m", "tarry.service.cli.app", "redrive", "slow", "--group", "g", "--rate", "10"],
        env=os.environ | python_path() | {"TARRY_URL": server.url},
    )
    wait_until(lambda: tarry.group("slow", "g")["dead_letters"] <= 95)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    left = tarry.group("slow", "g")["dead_letters"]
    (told,) = lines(command(server.url, "dead", "purge", "slow", "--group", "g", "--yes", "--json"))
    purged = told["purged"]  # the call that was under way may have redriven some more
    assert 50 < purged <= left <= 95
    assert len(take(tarry, "slow", "g", 100 - purged)) == 100 - purged


@pytest.mark.long
def test_a_replay_that_was_killed_goes_on(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry:
        tarry.publish_many("big", [{"body": n} for n in range(20_000)], max_messages=1000)
        tarry.put_group("big", "g", start="latest")
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from tarry.client import Tarry; Tarry({server.url!r}, deadline=0).replay('big', 'g', 'earliest')",
            ],
            env=os.environ | python_path(),
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: tarry.group("big", "g")["redriven"] >= 1000)
        server.kill()
        server.start()
        process.wait(30)
        before = tarry.group("big", "g")["redriven"]
        assert before < 20_000, "killed too late to show anything"
        assert tarry.replay("big", "g", "earliest") == 20_000 - before
        assert tarry.group("big", "g")["redriven"] == 20_000
