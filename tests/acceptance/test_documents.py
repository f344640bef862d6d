"""The documents, tried as a new user would: their examples run, their links lead somewhere, their tables are complete.

Shell and Python blocks are run in their order against one real server, as they stand, but for its address and for
delays of seconds, which are cut. A block that sets a variable (`ID=...   # yours is another`) stands for the reader's
copying: the variable is taken from the answer before.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.server import start_server
from support.spark_wanted import need_spark
from tarry.service.cli.app import app
from tarry.service.demo.server_process import ServerProcess, python_path
from tarry.service.http.routes import OPERATIONS
from tarry.service.settings import Settings

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *(ROOT / "docs").rglob("*.md"),
]
REFERENCE = ROOT / "docs" / "reference"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SETTING_UP = re.compile(r"make |pip |tarry serve")
_COPYING = re.compile(r"(?:ID|CLAIM)=\S+ +# yours")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


class Reader:
    """A user at a terminal, who copies ids and claims from one answer into the next request."""

    def __init__(self, server: ServerProcess, home: Path, seconds: int = 60) -> None:
        self._server = server
        self._seconds = seconds
        """For a command, at most."""
        self._home = home
        tarry = home / "tarry"
        tarry.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tarry.service.cli.app "$@"\n')
        tarry.chmod(0o755)
        path = f"{home}{os.pathsep}{os.environ['PATH']}"
        self._environment = os.environ | python_path() | {"TARRY_URL": server.url, "PATH": path, "NO_COLOR": "1"}

    def run(self, path: Path) -> list[Any]:
        """Runs the blocks of a document; what each printed, JSON where it was JSON."""
        answers: list[Any] = []
        for language, text in _BLOCK.findall(path.read_text("utf-8")):
            if language == "python":
                answers.append(self._python(text))
            elif language == "sh" and not _SETTING_UP.match(text) and not _COPYING.match(text):
                answers += self._shell(text)
        return answers

    def _shell(self, text: str) -> list[Any]:
        answers: list[Any] = []
        for command in re.split(r"\n(?=curl|tarry)", text.strip()):
            command = command.replace("localhost:8277", self._server.url).replace('"delay": "10s"', '"delay": "200ms"')
            done = subprocess.run(
                ["sh", "-euc", command],
                cwd=self._home,
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=self._seconds,
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            answers.append(self._copy(json.loads(done.stdout) if command.startswith("curl") else done.stdout))
        return answers

    def _copy(self, answer: Any) -> Any:
        if isinstance(answer, dict):
            for variable, member in (("ID", "id"), ("CLAIM", "claim")):
                if isinstance(value := answer.get(member), str):
                    self._environment[variable] = value
        return answer

    def _python(self, text: str) -> str:
        """What it prints first; a loop without an end is ended by Ctrl-C, a `main` comes to its own."""
        ends = ".run(main" in text
        text = text.replace("http://127.0.0.1:8277", self._server.url).replace('delay="1s"', 'delay="100ms"')
        # Whoever is started in the background of a shell has no Ctrl-C.
        prelude = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        command = [sys.executable, "-u", "-c", prelude + text]
        with subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            alarm = threading.Timer(60, process.kill)
            alarm.start()
            said = process.stdout.readline()
            if not ends:
                process.send_signal(signal.SIGINT)
            _, wrong = process.communicate()
            alarm.cancel()
        assert process.returncode == (0 if ends else -signal.SIGINT), wrong
        assert said, wrong
        return said.strip()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    if shutil.which("curl") is None:
        pytest.skip("no curl on PATH")
    with start_server(tmp_path, env={"TARRY_LADDER": "50ms,50ms"}) as server:
        yield Reader(server, tmp_path)


def test_the_tutorial(reader: Reader) -> None:
    sent, claim, failed, again, acked, life, late, other, cancelled, python = reader.run(
        ROOT / "docs/tutorial/first-message.md"
    )
    assert sent["state"] == "scheduled"
    assert [(m["id"], m["attempt"]) for m in claim["messages"]] == [(sent["id"], 1)]
    assert failed == {"retried": 1, "dead": 0}
    assert [(m["id"], m["attempt"]) for m in again["messages"]] == [(sent["id"], 2)]
    assert acked == {"acked": 1}
    told = [(event["what"], event.get("reason")) for event in life["life"]]
    assert told == [
        *(("scheduled", None), ("promoted", None), ("claimed", None), ("failed", "printer on fire")),
        *(("returned", None), ("claimed", None), ("acked", None)),
    ]
    assert (late["status"], late["result"]) == (409, "too_late")
    assert other["state"] == "scheduled"
    assert cancelled == {"result": "cancelled"}
    assert python == "{'order': 9} 1"


def test_the_readme(reader: Reader) -> None:
    sent, claim, acked, python, published, topics = reader.run(ROOT / "README.md")
    assert sent["state"] == "scheduled"
    assert [m["id"] for m in claim["messages"]] == [sent["id"]]
    assert acked == {"acked": 1}
    assert python == "{'order': 9}"
    assert "scheduled" in published
    assert "orders" in topics


def test_the_how_to_for_asyncio_and_trio(reader: Reader) -> None:
    assert reader.run(ROOT / "docs/how-to/async.md") == ["scheduled", "0", "read Grace"]


def test_how_to_dead_letters(reader: Reader) -> None:
    made, counted, listed, would, redriven, none, purged = reader.run(ROOT / "docs" / "how-to" / "dead-letters.md")
    assert (made["ladder"], made["jitter"]) == ([100, 200], 0.5)
    assert counted == "4 dead letters"
    assert listed.count("the mail server is away") == 4
    assert [text.split()[-1] for text in (would, redriven, none)] == ["4", "4", "0"]
    assert purged.split()[-1] == "0"


def test_how_to_replay(reader: Reader) -> None:
    answers = reader.run(ROOT / "docs" / "how-to" / "replay.md")
    taken = [answer.count('"parcel":') for answer in answers if isinstance(answer, str)]
    assert taken[3:5] == [3, 3]
    would, beyond, moved, again = answers[6:10]
    assert would.split()[-3:] == ["0", "3", "0"]
    assert beyond.split()[-3:] == ["0", "3", "3"]
    assert moved.split()[-3:] == ["0", "3", "0"]
    assert again.count('"parcel":') == 3
    assert answers[10] == {"replayed": 2, "more": False}
    assert [json.loads(line)["body"]["parcel"] for line in answers[11].splitlines()] == [2, 3]
    assert answers[12] == "3 come again"
    assert answers[13]["group"] == "returns"


def test_keeping_order(reader: Reader) -> None:
    topic, sent, python, strict, group, renewed, gone = reader.run(ROOT / "docs/how-to/keep-order.md")
    assert (topic["ordered"], topic["queues"]) == (True, 4)
    first, second, _ = sent["messages"]
    assert (first["queue"], first["offset"] + 1) == (second["queue"], second["offset"])
    assert python in ("account-7 50", "account-8 10")
    assert (strict["ladder"], strict["on_exhausted"]) == ([1000], "block")
    assert len(group["queues"]) == 4
    assert {"owner"} < set(group["queues"][0])
    assert renewed["client"] == "worker-1"
    assert gone == {"client": "worker-1", "registered": True, "claims": 0}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_pipeline_from_nothing_to_a_report(tmp_path: Path) -> None:
    need_spark()
    with start_server(tmp_path) as server:
        answers = Reader(server, tmp_path, seconds=300).run(ROOT / "docs/pipeline.md")
    archived, reported, audited, traced = answers[-4:]
    assert dict(line.split("\t") for line in archived.splitlines())["messages"] == "3"
    assert reported.strip().endswith("report/index.html")
    assert "parcels" in (tmp_path / "report" / "index.html").read_text("utf-8")
    assert audited.strip().endswith("clean")
    assert "acked" in traced


def test_how_to_broadcast(reader: Reader) -> None:
    made, hall, door, sent, to_hall, to_door, after, python = reader.run(ROOT / "docs/how-to/broadcast.md")
    assert made["kind"] == "broadcast"
    assert hall["messages"] == door["messages"] == []
    assert sent["state"] == "published"
    for answer in (to_hall, to_door):
        assert [m["body"] for m in answer["messages"]] == [{"tea": 3}]
        assert (answer["claim"], answer["next"]) == (None, "0-1")
    assert (after["messages"], after["next"]) == ([], "0-1")
    assert python == "{'tea': 3}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for link in _LINK.findall(path.read_text("utf-8")):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        file = (path.parent / target) if target else path
        assert file.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings], link


def test_every_setting_is_told_with_its_default() -> None:
    text = (REFERENCE / "configuration.md").read_text("utf-8")
    for name, value, _origin in Settings().listed():
        default = {"node": "the host's name"}.get(name, f"`{value}`")
        assert f"| `{name}` | {default} |" in text


def test_every_call_is_told() -> None:
    text = (REFERENCE / "http.md").read_text("utf-8")
    calls = [f"{operation.method} {operation.path}" for operation in OPERATIONS]
    assert not [call for call in calls if call not in text]


def test_every_command_is_told() -> None:
    text = (REFERENCE / "cli.md").read_text("utf-8")
    assert not [name for name in app.resolved_commands() if not name.startswith("-") and f"`tarry {name}" not in text]


def test_nothing_is_advised_that_is_not_there() -> None:
    """No index has the package yet, so it is installed in a checkout. Only an extra is added by its name, where Tarry
    is there already: test_distributions.py tries it. And there are no schedules yet."""
    places = ("*.md", "docs/**/*.md", "service/**/*.py", "pipeline/**/*.py")
    advised = [path for place in places for path in ROOT.glob(place)]
    assert [path.name for path in advised if re.search(r"pip install \S?tarry(?!\[)", path.read_text("utf-8"))] == []
    if not any("/schedules" in operation.path for operation in OPERATIONS):
        summaries = [ROOT / "pyproject.toml", ROOT / "__init__.py", ROOT / "service/http/openapi.py"]
        assert [path.name for path in summaries if "schedules" in path.read_text("utf-8")] == []
        assert "schedules" not in (app.help if isinstance(app.help, str) else "")
