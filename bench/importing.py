"""How many rows a second does `tarry pipeline import` write to MySQL, compared with publishing over HTTP?

    python -m tarry.bench.importing --dsn mysql://root@127.0.0.1:3306/any [--rows 300000] [--runs 3]

The rows of one CSV, about 200 bytes each, due over the next day:

    import     the whole job in a warm Spark session, with its checks, its guard against duplicates and durable commits
    http       client.publish_many in batches of 1000 from 4 threads, to a real server on the same database

Both alternate, run after run, each on an empty database. Ratios are within each run.
"""

import csv
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio
from pyspark.sql import SparkSession

from ..client import Tarry
from ..pipeline import session
from ..pipeline.sending import importing
from ..pipeline.sending.column_mapping import ColumnMapping
from ..pipeline.sending.input_files import read_rows
from ..store.catalogue import TopicDraft
from . import databases
from .report import Figures, column, ratios, say, spreads, summarize
from .subject import add_topic, opened, served

_TOPIC = "bench"
_MASTER = "local[2]"
_THREADS = 4
_BATCH = 1000


def main() -> None:
    parser = databases.options("importing", __doc__, runs=3)
    parser.add_argument("--rows", type=databases.count, default=300_000, help="of the file")
    arguments = parser.parse_args()
    if arguments.dsn.startswith("sqlite"):
        parser.error("the import writes to MySQL and MariaDB")
    with databases.server(arguments.dsn) as dsn, tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
        compare(dsn, Path(folder), arguments.rows, arguments.runs)


def compare(dsn: str, folder: Path, rows: int, runs: int) -> None:
    """Runs both in turn, after a warm-up, and prints their figures."""
    file = folder / "rows.csv"
    write_rows(file, rows)
    spark = session.open_session("bench", _MASTER)

    def counted(act: Callable[[str], float]) -> Callable[[str], Figures]:
        def measure(empty: str) -> Figures:
            make_topic(empty)
            seconds = act(empty)
            databases.expect_rows(empty, "delay", rows)
            return {"rows": rows, "seconds": round(seconds, 3), "per_s": round(rows / seconds)}

        return measure

    contestants = {
        "import": counted(lambda empty: by_import(spark, empty, file)),
        "http": counted(lambda empty: by_http(empty, file)),
    }
    settings = databases.durability(dsn)
    with databases.scratch(dsn) as scratch:
        say("warming up")
        contestants["import"](scratch)  # as many rows as are measured: Java compiles code that runs often
    rates = column(databases.alternate(dsn, "importing", runs, contestants), "per_s")
    summarize(
        "importing",
        rows=rows,
        runs=runs,
        master=_MASTER,
        **settings,
        per_s=spreads(rates),
        times_http=ratios(rates, "import", "http"),
    )
    spark.stop()


def write_rows(file: Path, rows: int) -> None:
    """Writes a CSV whose rows fall due one after another over a day that begins in an hour."""
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    with file.open("w") as out:
        out.write("number,at,text\n")
        for number in range(rows):
            at = begin + timedelta(milliseconds=number * 86_400_000 // rows)
            out.write(f"{number},{at.strftime('%Y-%m-%dT%H:%M:%S.')}{at.microsecond // 1000:03}Z,{'x' * 135}\n")


def make_topic(dsn: str) -> None:
    async def run() -> None:
        async with opened(dsn) as store:
            await add_topic(store, TopicDraft(_TOPIC, queues=4))

    trio.run(run)


def by_import(spark: SparkSession, dsn: str, file: Path) -> float:
    began = time.perf_counter()
    rows = read_rows(spark, [str(file)], None)
    mapping = ColumnMapping(deliver_at="at")
    importing.run(spark, importing.Job(rows=rows, mapping=mapping, topic=_TOPIC, name="bench", dsn=dsn))
    return time.perf_counter() - began


def by_http(dsn: str, file: Path) -> float:
    """Publishes from four threads, each with every fourth batch; the drafts are made before the clock starts."""
    with file.open(newline="") as lines:
        drafts = [{"body": row, "deliver_at": row["at"]} for row in csv.DictReader(lines)]
    batches = [drafts[begin : begin + _BATCH] for begin in range(0, len(drafts), _BATCH)]
    with served(dsn) as server, Tarry(server.url, timeout=60) as tarry:

        def publish(first: int) -> None:
            for batch in batches[first::_THREADS]:
                tarry.publish_many(_TOPIC, batch)

        began = time.perf_counter()
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(publish, range(_THREADS)):
                pass  # raises what a thread raised
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
