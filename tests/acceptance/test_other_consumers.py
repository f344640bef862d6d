"""The consumers of the how-to of other languages, as they stand, but for address, lease and handler."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import frozen

from support.languages import bash, java, node
from support.scripted_server import LOST, Answer, Request, problem, scripted_server
from support.server import start_server
from support.waiting import wait_until
from tarry.client import Tarry

PAGE = (Path(__file__).parents[2] / "docs/how-to/other-languages.md").read_text("utf-8")


@frozen
class Language:
    kind: str
    file: str
    command: Callable[[], list[str]]
    handler: tuple[str, str]
    """What stands in the page, and what is to come before it: it takes seconds, and fails, as the message says."""
    lease: tuple[tuple[str, str], ...]
    """So that it is over within four seconds."""


LANGUAGES = [
    Language(
        "bash",
        "consume.sh",
        bash,
        (
            "jq -r '",
            'sleep "$(jq -r .body.seconds <<<"$1")"; '
            '[[ $(jq "(.body.fail // 0) < .attempt" <<<"$1") = true ]] || return 1\n    ',
        ),
        (('"lease": "60s"', '"lease": "4s"'), ("sleep 20", "sleep 1")),
    ),
    Language(
        "js",
        "consume.mjs",
        node,
        (
            "console.log(",
            "await sleep(1000 * message.body.seconds);\n"
            "  if ((message.body.fail ?? 0) >= message.attempt) throw new Error('no \"ink\"');\n  ",
        ),
        (("lease = 60_000", "lease = 4_000"),),
    ),
    Language(
        "java",
        "Consume.java",
        java,
        (
            "System.out.println(",
            'Map<?, ?> body = (Map<?, ?>) message.get("body");\n'
            'Thread.sleep(1000 * ((Number) body.get("seconds")).longValue());\n'
            'if (body.get("fail") != null && ((Number) message.get("attempt")).intValue() < 2) '
            'throw new Exception("no \\"ink\\"");\n        ',
        ),
        (("LEASE = 60_000", "LEASE = 4_000"),),
    ),
]


class Consumer:
    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process, self._log = process, log

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8")

    def stop(self) -> None:
        began = time.monotonic()
        self.process.terminate()
        assert self.process.wait(30) in (0, 143), self.said  # Java's own, after SIGTERM
        assert time.monotonic() - began < 20


@contextmanager
def consuming(language: Language, folder: Path, url: str) -> Iterator[Consumer]:
    command = language.command()
    *_, text = (
        block for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S) if kind == language.kind
    )
    known, before = language.handler
    for there, here in (("http://127.0.0.1:8277", url), (known, before + known), *language.lease):
        assert there in text
        text = text.replace(there, here, 1 if there == known else -1)
    (folder / language.file).write_text(text, "utf-8")
    log = folder / "said"
    with log.open("wb") as out:
        process = subprocess.Popen([*command, language.file], cwd=folder, stdout=out, stderr=out)
    consumer = Consumer(process, log)
    try:
        yield consumer
    except BaseException:
        print(consumer.said)
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda one: one.kind)
@pytest.mark.timeout(120)
@pytest.mark.cases(1)
def test_it_renews_fails_goes_on_after_a_restart_and_stops(language: Language, tmp_path: Path) -> None:
    with (
        start_server(tmp_path, env={"TARRY_LADDER": "50ms,50ms"}) as server,
        consuming(language, tmp_path, server.url) as consumer,
        Tarry(server.url) as tarry,
    ):

        def works(name: str, told: str, **body: int) -> None:
            tarry.publish("letters", {"to": name, "seconds": 0, **body})
            wait_until(lambda: f"{name} {told}\n" in consumer.said, 40)

        works('Ada \u00e9\\"\n\t', "1", seconds=7)
        works("Eve", "2", fail=1)
        server.kill()
        server.start()
        works("Grace", "1")
        wait_until(lambda: tarry.group("letters", "post")["acked"] == 3)
        tarry.publish("letters", {"to": "Last", "seconds": 2})
        wait_until(lambda: tarry.group("letters", "post")["claims"] == 1)
        consumer.stop()
        assert "Last 1" in consumer.said  # what it had begun it has finished
        assert len(re.findall("Ada", consumer.said)) == 1
        group = tarry.group("letters", "post")
        assert (group["acked"], group["claims"], group["backlog"]) == (4, 0, 0)


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda one: one.kind)
@pytest.mark.timeout(120)
@pytest.mark.cases(1)
def test_it_waits_as_it_is_told(language: Language, tmp_path: Path) -> None:
    came: list[tuple[float, str]] = []
    later = {"Retry-After": "2"}
    answers = [Answer(429, {"status": 429}, later), Answer(503, {"status": 503}, later), LOST]
    empty = Answer(200, {"claim": None, "messages": []})

    def respond(request: Request) -> Answer:
        came.append((time.monotonic(), request.path))
        return answers.pop(0) if answers else problem(404) if len(came) == 5 else empty

    with scripted_server() as script:
        script.respond = respond
        with consuming(language, tmp_path, script.url) as consumer:
            wait_until(lambda: len(came) > 5, 60)
            consumer.stop()
    times = [at for at, _ in came]
    rests = [after - before for before, after in pairwise(times)]
    assert all(1.9 < rest < 15 for rest in rests[:2]), rests
    assert rests[4] > 0.9, "what will not pass is not asked for at once"
    assert {path for _, path in came} == {"/v1/topics/letters/groups/post/claim"}
