"""Rows over HTTP, on a line that loses answers: what a retried request finds there may be its own."""

from pathlib import Path

import attrs
import pytest

from support.mute_line import mute_line
from support.server import client_of, start_server
from tarry.pipeline.arrow import Batch, pa
from tarry.pipeline.errors import NotFound
from tarry.pipeline.sending.http_import import Target, clock_of, write

HOUR = 3_600_000


def batch(names: range) -> Batch:
    requests = [f'{{"body": {name}, "idempotency_key": "row {name}"}}' for name in names]
    return pa.RecordBatch.from_pydict({"request": requests, "ordering_key": pa.nulls(len(requests), pa.string())})


def test_a_row_whose_answer_was_lost_is_imported_and_not_skipped(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry, mute_line(server.url) as line:
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
