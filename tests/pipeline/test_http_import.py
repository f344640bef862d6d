"""Rows over HTTP, on a line that loses answers: what a retried request finds there may be its own."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

import attrs
import pytest

from support.scripted_server import Answer, Request, scripted_server
from support.server import client_of, start_server
from tarry.pipeline.arrow import Batch, pa
from tarry.pipeline.errors import NotFound
from tarry.pipeline.sending.http_import import Target, clock_of, write

HOUR = 3_600_000


@attrs.define
class Line:
    """Passes requests on to a server. `mute` is how many of the next answers to a POST are lost."""

    to: str
    url: str = ""
    mute: int = 0
    _lock: Lock = attrs.field(factory=Lock)

    def respond(self, request: Request) -> Answer:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        with closing(HTTPConnection(self.to, timeout=30)) as there:
            there.request(request.method, request.path, request.content, headers)
            answer = there.getresponse()
            content = answer.read()
        told = {"Content-Type": answer.headers["Content-Type"]}
        return Answer(answer.status, headers=told, content=content, lost=request.method == "POST" and self._loses())

    def _loses(self) -> bool:
        with self._lock:
            self.mute -= 1
            return self.mute >= 0


@contextmanager
def line_to(url: str) -> Generator[Line]:
    with scripted_server() as server:
        line = Line(urlsplit(url).netloc, server.url)
        server.respond = line.respond
        yield line


def batch(names: range) -> Batch:
    requests = [f'{{"body": {name}, "idempotency_key": "row {name}"}}' for name in names]
    return pa.RecordBatch.from_pydict({"request": requests, "ordering_key": pa.nulls(len(requests), pa.string())})


def test_a_row_whose_answer_was_lost_is_imported_and_not_skipped(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry, line_to(server.url) as line:
        with pytest.raises(NotFound):
            clock_of(line.url, "orders")
        tarry.publish("orders", "the first makes the topic")
        door = Target(line.url, "orders", False, None, clock_of(line.url, "orders"))
        line.mute = 7
        done = write(door, [batch(range(40))])
        assert line.mute < 0, "as many answers were lost"
        assert (done.imported, done.skipped, done.refused) == (40, 0, 0)
        done = write(door, [batch(range(40))])
        assert (done.imported, done.skipped) == (0, 40), "no request was tried again: they were there before"
        line.mute = 7
        done = write(attrs.evolve(door, began=door.began + HOUR), [batch(range(30, 40))])
        assert line.mute < 0
        assert (done.imported, done.skipped) == (0, 10), (
            "their answers were lost, and an import before had brought them"
        )
        assert len(tarry.pull("orders", 0, 0, max=1000).messages) == 41


def test_the_clock_is_the_store_s(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry:
        receipt = tarry.publish("orders", 1)
        before = receipt.deliver_at.timestamp() * 1000
        assert before <= clock_of(server.url, "orders") <= before + HOUR
