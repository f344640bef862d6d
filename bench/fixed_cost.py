"""What a job of the pipeline costs before it has any work to speak of, beside a bare Spark session.

    python -m tarry.bench.fixed_cost --runs 3
    python -m tarry.bench.fixed_cost --rows 1000000 --runs 1

A bare session starts Spark on the same cores and counts one small table. Each command is a process of its own, as
people run it, in the same run as the session that it is held against: `nothing_new` is an archive that finds nothing,
`wrong_lake` and `wrong_topic` an audit that is told of a place or a topic that is not there, `trace` one message of a
lake of `--rows`, `audit` 10,000 messages of an embedded store, all claimed and acked.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import trio
from cyclopts import App, Parameter

from ..pipeline.arrow import pa
from ..pipeline.columns import arrow_schema
from ..pipeline.lake.lake import Lake
from ..pipeline.lake.lake_writer import write_tables
from ..pipeline.schemas import TABLES
from ..store import catalogue
from ..store.catalogue import TopicDraft
from ..store.ids import SEQUENCE_BITS
from ..store.records import ClaimRequest, Draft, Publication, Settlement
from .report import ratios, say, show, spreads, summarize
from .subject import opened

app = App(name="fixed_cost", help=__doc__)

_START = 1_735_689_600_000
"""New Year 2025."""
_PAGE = 250_000
_AUDITED = 10_000
_BARE = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
for name in ("host", "bindAddress"):
    builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
spark = builder.getOrCreate()
assert spark.range(1000).count() == 1000
spark.stop()
"""
_GOALS = {"nothing_new": 1.5, "trace": 2.0, "audit": 4.0}
"""Times the bare session."""


@app.default
def main(
    *,
    rows: int = 10_000_000,
    runs: int = 3,
    master: str = "local[2]",
    folder: Annotated[str | None, Parameter(help="where lake and store are put, or found again")] = None,
) -> None:
    """Time the commands."""
    place = Path(folder or tempfile.mkdtemp(prefix="tarry-fixed-cost-"))
    wanted = make_lake(place / "big", rows)
    dsn = f"sqlite:///{place}/tarry.db"
    if not (place / "tarry.db").exists():
        say(f"making a store of {_AUDITED} messages")
        trio.run(make_store, dsn)
    job = [sys.executable, "-P", "-m", "tarry.pipeline"]
    archive = [*job, "archive", "--dsn", dsn, "--lake", str(place / "lake"), "--master", master]
    audit = [*job, "audit", "--dsn", dsn, "--master", master]
    _timed(archive, 0)
    commands = {
        "bare": ([sys.executable, "-c", _BARE, master], 0),
        "nothing_new": (archive, 0),
        "wrong_lake": ([*job, "report", "--lake", str(place / "no"), "--output", str(place / "report")], 1),
        "wrong_topic": ([*audit, "--topic", "nowhere"], 3),
        "trace": ([*job, "trace", "--lake", str(place / "big"), "--id", str(wanted)], 0),
        "audit": (audit, 0),
    }
    took: list[dict[str, float]] = []
    for run in range(1, runs + 1):
        took.append({})
        for name, (command, code) in commands.items():
            say(f"run {run} of {runs}: {name}")
            took[-1][name] = _timed(command, code)
        told = {name: round(seconds, 2) for name, seconds in took[-1].items()}
        show({"bench": "fixed_cost", "run": run, "load": round(os.getloadavg()[0], 1), "seconds": told})
    summarize(
        "fixed_cost",
        rows=rows,
        master=master,
        seconds=spreads(took, 2),
        times_bare={name: ratios(took, name, "bare") for name in commands if name != "bare"},
        goals=_GOALS,
    )


def _timed(command: list[str], code: int) -> float:
    began = perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
    return perf_counter() - began


def make_lake(place: Path, rows: int) -> int:
    """A lake of so many messages, a thousand a second, each delivered once; the id of one in the middle."""
    wanted = _id(rows // 2)
    if (place / "messages").exists():
        return wanted
    lake = Lake(str(place))
    for table in ("messages", "deliveries"):
        for begin in range(0, rows, 4 * _PAGE):
            say(f"making {table}: {begin} of {rows}")
            snapshot = lake.ensure(table)
            added = write_tables(snapshot.place, table, _pages(table, begin, min(rows, begin + 4 * _PAGE)))
            lake.commit(table, added, {}, {})
    return wanted


def _id(offset: int) -> int:
    return (_START + offset) << SEQUENCE_BITS


def _pages(table: str, begin: int, end: int) -> Iterator[Any]:
    schema = arrow_schema(TABLES[table])
    for first in range(begin, end, _PAGE):
        offsets = pa.array(range(first, min(end, first + _PAGE)), pa.int64())
        many = len(offsets)
        times = pa.array([(_START + offset) * 1000 for offset in range(first, first + many)], pa.int64())
        values = {
            "offset": offsets,
            "message_offset": offsets,
            "number": offsets,
            "claim": offsets,
            "id": pa.array([_id(offset) for offset in range(first, first + many)], pa.int64()),
            "key": pa.array([f"order-{offset % 100_000}" for offset in range(first, first + many)], pa.string()),
        }
        same = {"topic": "orders", "topic_id": 1, "queue_id": 1, "queue": 0, "message_queue_id": 1, "body": b"{}"}
        same |= {"group": "billing", "group_id": 1, "client": "c", "attempt": 1, "outcome": "acked"}
        yield pa.table(
            [
                times.cast(field.type)
                if pa.types.is_timestamp(field.type)
                else values.get(field.name, pa.repeat(pa.scalar(same.get(field.name), field.type), many))
                for field in schema
            ],
            schema=schema,
        )


async def make_store(dsn: str) -> None:
    """Messages of some time ago, all acked by one group."""
    async with opened(dsn) as store:
        now = await store.now() - 3_600_000
        topic = await store.write(catalogue.add_topic, TopicDraft("orders"), now)
        group = await store.add_group(topic, "billing", now)
        for _ in range(0, _AUDITED, 1000):
            drafts = tuple(Draft(topic=topic, queue=topic.queues[0], body=b"%d" % n) for n in range(1000))
            await store.publish([Publication(drafts)], now)
            turn = await store.turn(group, [], [ClaimRequest("bench", 1000, 60_000)], now)
            claim = turn.claims[0]
            if claim is None or len(claim.messages) != 1000:
                raise AssertionError(f"a thousand messages, and {claim} was claimed")
            await store.turn(group, [Settlement(claim.key, "ack")], [], now + 5)


if __name__ == "__main__":
    app()
