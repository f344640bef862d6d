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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.fork_server import put_tarry
from support.languages import java, node
from support.server import start_server
from support.spark_wanted import need_spark
from tarry.client import Tarry
from tarry.service.cli.app import app
from tarry.service.demo.server_process import ServerProcess, free_port, python_path
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

    def __init__(
        self, server: ServerProcess, home: Path, seconds: int = 60, words: Mapping[str, str] | None = None
    ) -> None:
        self._server = server
        self._seconds = seconds
        """For a command, at most."""
        self._home = home
        self._words = words or {}
        """What stands here for what is in the document."""
        put_tarry(home)
        path = f"{home}{os.pathsep}{os.environ['PATH']}"
        self._environment = os.environ | python_path() | {"TARRY_URL": server.url, "PATH": path, "NO_COLOR": "1"}

    def run(self, path: Path) -> list[Any]:
        """Runs the blocks of a document; what each printed, JSON where it was JSON."""
        answers: list[Any] = []
        document = path.read_text("utf-8")
        for word, here in self._words.items():
            document = document.replace(word, here)
        for language, text in _BLOCK.findall(document):
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
        """What it prints first; a loop without an end is ended by Ctrl-C, anything else comes to its own."""
        ends = ".run(main" in text or "stop=" in text or not re.search(r"while True|\.consume\(|\.run\(", text)
        text = text.replace("http://127.0.0.1:8277", self._server.url).replace('delay="1s"', 'delay="100ms"')
        # Whoever is started in the background of a shell has no Ctrl-C.
        prelude = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        command = [sys.executable, "-u", "-c", prelude + text]
        environment = self._environment | ({"TARRY_TEST_FORK": "1"} if ends else {})
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
        ("scheduled", None),
        ("promoted", None),
        ("claimed", None),
        ("failed", "printer on fire"),
        ("returned", None),
        ("claimed", None),
        ("acked", None),
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
    assert reader.run(ROOT / "docs/how-to/async.md") == ["scheduled", "0", "read Grace", "a parcel for Ada"]


def test_how_to_come_from_celery(reader: Reader) -> None:
    assert reader.run(ROOT / "docs/how-to/celery.md") == ["order 7 at attempt 2"]


def test_how_to_come_from_other_queues(reader: Reader) -> None:
    assert reader.run(ROOT / "docs/how-to/from-other-queues.md") == ["order 7"]


def test_how_to_dead_letters(reader: Reader) -> None:
    made, counted, listed, of_reason, would, redriven, none, purged = reader.run(ROOT / "docs/how-to/dead-letters.md")
    assert (made["ladder"], made["jitter"]) == ([100, 200], 0.5)
    assert counted == "4 dead letters"
    assert listed.count("the mail server is away") == 4
    assert [text.split()[-1] for text in (of_reason, would, redriven, none)] == ["4", "4", "4", "0"]
    assert purged.split()[-1] == "0"


def test_daily_at_nine(reader: Reader) -> None:
    would, made, report, next_, _, told, applied, shown = reader.run(ROOT / "docs/how-to/daily-at-nine.md")
    assert "0 9 * * * Europe/Berlin" in would
    assert "daily" in made
    assert report.startswith("report for 20")
    assert next_[11:16] in ("07:00", "08:00")
    assert "change" in told
    assert "change" in applied
    assert "run" in shown


def test_how_to_move_to_later(reader: Reader) -> None:
    made, moved, changed, put_off = reader.run(ROOT / "docs/how-to/move-to-later.md")
    assert (made["key"], moved["id"]) == ("customer-7", made["id"])
    assert changed == "somebody else has moved it since: True"
    assert put_off == "scheduled once"


def test_how_to_spread_a_send(reader: Reader) -> None:
    one, python, shell, told = reader.run(ROOT / "docs/how-to/spread-a-send.md")
    assert "2030-03-01T22" <= one["deliver_at"] < "2030-03-02T06"
    assert python == "in one second at most 1"
    assert "scheduled" in shell
    assert sum(bucket["messages"] for bucket in told["buckets"]) == 2002


def test_how_to_erase(reader: Reader) -> None:
    sent, found, cancelled, erased, python, met = reader.run(ROOT / "docs/how-to/erase.md")
    assert [one["id"] for one in found["messages"]] == [sent["id"]]
    assert cancelled == {"cancelled": 0, "too_late": 1}
    assert sent["id"] in erased
    assert python == "erased, the lake: none"
    assert met == "nothing to do: None"


def test_how_to_keep_a_neighbour_quiet(reader: Reader) -> None:
    made, paused, resumed, limited, told, released = reader.run(ROOT / "docs/how-to/keep-a-neighbour-quiet.md")
    assert [one["paused"] for one in (made, paused, resumed)] == [False, True, False]
    assert limited["max_rate"] == 200
    assert released["release_rate"] == 500
    assert told == "429 after 3"


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


def test_how_to_webhook(tmp_path: Path) -> None:
    with start_server(tmp_path, env={"TARRY_PUSH_ALLOW": "127.0.0.1/32"}) as server:
        answers = Reader(server, tmp_path, words={"8278": str(free_port())}).run(
            ROOT / "docs" / "how-to" / "webhook.md"
        )
    group, put, took, seen, rotated, ended = answers
    assert group["ladder"] == [100, 1000, 60_000, 3_600_000]
    assert (put["state"], put["secrets"], put["timeout"], put["max_in_flight"]) == ("on", 1, 5000, 4)
    assert took == '{"order":7} at attempt 2'
    assert (seen["state"], rotated["secrets"], ended["result"]) == ("on", 2, "removed")


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


OTHER_LANGUAGES = ROOT / "docs/how-to/other-languages.md"


def test_other_languages_curl(reader: Reader) -> None:
    sent, claim, acked, lines = reader.run(OTHER_LANGUAGES)
    assert [(m["id"], m["body"]) for m in claim["messages"]] == [(sent["id"], {"to": "Ada"})]
    assert acked == {"acked": 1}
    assert [json.loads(line)["state"] for line in lines.splitlines()] == ["published", "published"]


@pytest.mark.parametrize(
    ("language", "file", "command"), [("js", "letters.mjs", node), ("java", "Letters.java", java)], ids=("node", "java")
)
@pytest.mark.cases(1)
def test_other_languages_that_can_be_run(
    tmp_path: Path, language: str, file: str, command: Callable[[], list[str]]
) -> None:
    """The program as it stands, but for the address of its server."""
    run = command()
    text, _consumer = (block for kind, block in _BLOCK.findall(OTHER_LANGUAGES.read_text("utf-8")) if kind == language)
    with start_server(tmp_path) as server:
        (tmp_path / file).write_text(text.replace("http://127.0.0.1:8277", server.url))
        said = subprocess.check_output([*run, file], cwd=tmp_path, text=True, timeout=120)
        with Tarry(server.url) as tarry:
            (topic,) = (one["topic"] for one in tarry.topics() if one["topic"].startswith("letters-"))
            group = tarry.group(topic, "post")
    assert (group["acked"], group["claims"]) == (1, 0)
    assert len(re.findall(r"\bpublished\b", said)) == 2
    assert "Ada" in said


def test_other_languages_that_are_not_run_say_so() -> None:
    for section in OTHER_LANGUAGES.read_text("utf-8").split("\n## ")[1:]:
        languages = {kind for kind, _ in _BLOCK.findall(section)}
        assert ("Not run by a test of ours." in section) == (not languages <= {"sh", "bash", "js", "java"}), section[
            :20
        ]


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


def test_a_message_carries_its_trace(reader: Reader) -> None:
    (span,) = reader.run(ROOT / "docs/how-to/opentelemetry.md")
    assert span == "{", "what is exported first is the publish"


def test_the_runbook_and_the_monitoring(tmp_path: Path) -> None:
    """All that is to be typed for an alert, against a server with a group that has been through much of it."""
    if shutil.which("curl") is None:
        pytest.skip("no curl on PATH")
    with start_server(tmp_path) as server, Tarry(server.url) as tarry:
        for number in range(3):
            tarry.publish("orders", number)
        tarry.put_group("orders", "billing", ladder=[])
        claim = tarry.claim("orders", "billing", wait="5s")
        assert claim is not None
        tarry.fail(claim, reason="the printer is on fire")
        tarry.put_push("orders", "billing", "https://hooks.invalid/in", f"whsec_{'A' * 32}")
        tarry.pause("orders", "billing")
        reader = Reader(server, tmp_path)
        text = (ROOT / "docs/how-to/runbook.md").read_text("utf-8")
        commands = [line for _, block in _BLOCK.findall(text) for line in block.splitlines()]
        once = tmp_path / "runbook.md"  # many sections begin with the same look
        once.write_text("".join(f"```sh\n{line}\n```\n" for line in dict.fromkeys(commands)))
        answers = reader.run(once)
        assert sum("the printer is on fire" in str(answer) for answer in answers) >= 1
        assert sum(isinstance(answer, dict) and answer.get("ready") is True for answer in answers) == 1
        assert any(str(answer).startswith("would be redriven\n3") for answer in answers)
        assert any(str(answer).startswith("redriven\n3") for answer in answers)
        assert not tarry.group("orders", "billing")["paused"]
        assert "orders" in reader.run(ROOT / "docs/how-to/monitoring.md")[0]


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
    """And none is told that is not there."""
    text = (REFERENCE / "cli.md").read_text("utf-8")
    commands = {name for name in app.resolved_commands() if not name.startswith("-")}
    assert set(re.findall(r"`tarry ([a-z][a-z-]*)", text)) == commands


def test_nothing_is_advised_that_is_not_there() -> None:
    """No index has the package yet, so it is installed in a checkout. Only an extra is added by its name, where Tarry
    is there already: test_distributions.py tries it. And there are no schedules yet."""
    places = ("*.md", "docs/**/*.md", "service/**/*.py", "pipeline/**/*.py")
    advised = [path for place in places for path in ROOT.glob(place)]
    assert [path.name for path in advised if re.search(r"pip install \S?tarry(?!\[)", path.read_text("utf-8"))] == []
