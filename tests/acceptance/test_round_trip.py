"""Real events all the way round the pipeline: imported, delivered with failures, archived while running by an archiver
that is killed, audited from store and lake, reported, traced, replayed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.server import client_of, start_server
from support.spark_wanted import need_spark
from tarry.service.demo.server_process import python_path

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FLIGHTS = Path(__file__).parents[2] / "service" / "demo" / "sample" / "flights-2013-11-27.csv"
IN_USE = 75
SECONDS = 300.0


def pipeline(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "tarry.pipeline", *arguments, "--master", "local[2]"]
    return subprocess.Popen(
        command, env=os.environ | python_path(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def done(*arguments: str, code: int = 0) -> str:
    """What a job prints; one that finds another archiver's lease is tried again until that is over."""
    until = time.monotonic() + SECONDS
    while True:
        job = pipeline(*arguments)
        out, err = job.communicate(timeout=SECONDS)
        if job.returncode != IN_USE or time.monotonic() > until:
            assert job.returncode == code, f"{arguments}\n{out}\n{err}"
            return out
        time.sleep(1)


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_real_events_all_the_way_round(tmp_path: Path) -> None:
    need_spark()
    lake, dice = str(tmp_path / "lake"), random.Random(2013)
    with FLIGHTS.open(encoding="utf-8") as rows:
        flights = sum(1 for _ in rows) - 1
    with start_server(tmp_path, env={"TARRY_LADDER": "50ms,50ms,50ms"}) as server, client_of(server) as tarry:
        dsn = f"sqlite:///{tmp_path}/tarry.db"
        tarry.publish("departures", {"first": True}, key="first")
        brought = ("import", str(FLIGHTS), "--topic", "departures", "--server", server.url, "--key", "tailnum")
        (first,) = told(done(*brought, "--json"))
        assert (first["read"], first["imported"], first["bad"]) == (flights, flights, 0)
        (again,) = told(done(*brought, "--json"))
        assert again["imported"] == 0

        # Delivered with failures, and archived meanwhile by an archiver that is killed at three moments.
        attempts: Counter[str] = Counter()
        settled = killed = 0
        archiver = pipeline("archive", "--dsn", dsn, "--lake", lake, "--watch", "--every", "1", "--rows", "200")
        kill_at = time.monotonic() + dice.uniform(4, 12)
        while settled < flights + 1 or killed < 3:
            if time.monotonic() > kill_at and killed < 3:
                archiver.send_signal(signal.SIGKILL)
                archiver.communicate()
                killed += 1
                kill_at = time.monotonic() + dice.uniform(4, 12)
                archiver = pipeline("archive", "--dsn", dsn, "--lake", lake, "--watch", "--every", "1", "--rows", "200")
            claim = tarry.claim("departures", "tower", max=20, wait="200ms")
            if claim is None:
                continue
            bad = [m.id for m in claim.messages if attempts[m.id] == 0 and dice.random() < 0.1]
            poison = [m.id for m in claim.messages if m.id not in bad and int(m.id) % 97 == 0]
            attempts.update(m.id for m in claim.messages)
            if gone := [*bad, *poison]:
                settled += tarry.fail(claim, gone, reason="fog").dead
            rest = [m.id for m in claim.messages if m.id not in gone]
            if rest:
                settled += tarry.ack(claim, rest)
        archiver.send_signal(signal.SIGTERM)
        archiver.communicate(timeout=60)
        done("archive", "--dsn", dsn, "--lake", lake)

        audit = json.loads(done("audit", "--dsn", dsn, "--lake", lake, "--to", "2100-01-01T00:00:00Z", "--json"))
        assert audit["clean"], audit["findings"]
        (topic,) = audit["topics"]
        assert topic["accepted"] == topic["streamed"] == flights + 1

        page = tmp_path / "report" / "index.html"
        assert done("report", "--lake", lake, "--output", str(page.parent)).strip().endswith("index.html")
        assert "departures" in page.read_text("utf-8")

        life = told(done("trace", "--dsn", dsn, "--lake", lake, "--key", "first", "--json"))
        assert [event["what"] for event in life][-1] in ("acked", "dead")

        tarry.put_topic("copies")
        copied = ("replay", "--lake", lake, "--where", "key = 'first'", "--to-topic", "copies", "--server", server.url)
        (replayed,) = told(done(*copied, "--name", "once", "--json"))
        assert (replayed["replayed"], told(done(*copied, "--name", "once", "--json"))[0]["replayed"]) == (1, 0)
        copy = tarry.claim("copies", "readers", wait="5s")
        assert copy is not None
        assert [message.body for message in copy.messages] == [{"first": True}]
