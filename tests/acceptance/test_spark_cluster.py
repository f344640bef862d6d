"""The pipeline on a standalone cluster of two workers, as docs/how-to/spark-cluster.md says."""

import json
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import trio

from support import archiver
from support.lakes import MANY, fill, without_ties
from support.object_server import object_server
from support.spark_cluster import package, spark_cluster
from support.spark_wanted import need_spark
from support.store_homes import dsn, homes, stage
from support.stores import Stage

__all__ = ["dsn", "homes", "stage"]

pytestmark = pytest.mark.long


# A job of its own, with the pipeline's functions: the audit of a few messages that it makes, and where its tasks ran.
JOB = dedent("""
    import json, socket, sys
    from pyspark import TaskContext
    from tarry.pipeline import schemas
    from tarry.pipeline.audit.job import Audit
    from tarry.pipeline.session import open_session
    from tarry.pipeline.audit.evidence import Scope, look
    from tarry.pipeline.schemas import Tables
    from datetime import UTC, datetime

    folder, *master = sys.argv[1:]
    spark = open_session("cluster", master[0] if master else None)
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    def task(number):
        # The workers have the pipeline, and do not load trio for it.
        import os, sys, time
        from tarry.pipeline.schemas import VERSION
        from tarry.store import ids
        time.sleep(0.5)
        return os.getppid(), VERSION, "trio" in sys.modules

    tasks = spark.sparkContext.parallelize(range(8), 8).map(task).collect()
    frames = {name: spark.createDataFrame([], schema) for name, schema in schemas.TABLES.items()}
    for name in ("messages", "queues"):
        frames[name] = spark.read.schema(schemas.TABLES[name]).parquet(f"{folder}/{name}")
    audit = Audit.of(look(Tables(**frames)), Scope(datetime.now(UTC)))
    found = [[row.kind, row.offset] for row in audit.findings().collect()]
    told = {"master": spark.sparkContext.master, "executors": len({pid for pid, *_ in tasks})}
    print(json.dumps(told | {"tasks": sorted({(v, t) for _, v, t in tasks}), "found": found}))
    spark.stop()
""")


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue of 40 messages, without the one at 17, as Parquet; written by a program that has come to its end."""
    need_spark()
    folder = tmp_path_factory.mktemp("tables")
    _write(folder)
    return folder


def _write(folder: Path) -> None:
    pa: Any = import_module("pyarrow")
    pq: Any = import_module("pyarrow.parquet")
    from pyspark.sql.pandas.types import to_arrow_schema

    from support.literal_tables import moment
    from support.stores import START
    from tarry.pipeline.schemas import MESSAGES, QUEUES

    queue = {"topic": "orders", "topic_id": 1, "queue_id": 10, "queue": 0}
    at = dict.fromkeys(("accepted_at", "deliver_at", "streamed_at"), moment(START))
    ends = {"group_id": 0, "next_offset": 40, "straight": 40, "holes": 0, "floor": 0}
    offsets = [offset for offset in range(40) if offset != 17]
    tables = {
        "messages": ([queue | at | {"offset": offset, "id": offset, "body": b"{}"} for offset in offsets], MESSAGES),
        "queues": ([queue | ends], QUEUES),
    }
    for name, (rows, schema) in tables.items():
        (folder / name).mkdir()
        pq.write_table(
            pa.Table.from_pylist(rows, to_arrow_schema(schema, timezone="UTC")), folder / name / "part.parquet"
        )


def answer(told: str) -> dict[str, Any]:
    answered: dict[str, Any] = json.loads(told.splitlines()[-1])
    return answered


EXPECTED = {"executors": 2, "tasks": [[1, False]], "found": [["hole", 17]]}


@pytest.mark.timeout(900)
def test_spark_submit_with_a_zip(tmp_path: Path, folder: Path) -> None:
    """The workers have Python and the libraries; tarry comes with the job."""
    job = tmp_path / "job.py"
    job.write_text(JOB)
    with spark_cluster(tmp_path) as cluster:
        archive = package(tmp_path / "tarry.zip")
        done = cluster.submit(job, str(folder), options=["--py-files", str(archive)])
        assert done.returncode == 0, done.stderr
        assert answer(done.stdout) == {"master": cluster.url} | EXPECTED


@pytest.mark.timeout(900)
def test_installed_on_the_workers(tmp_path: Path, folder: Path) -> None:
    """No `spark-submit`: a Python that has tarry names the master."""
    job = tmp_path / "job.py"
    job.write_text(JOB)
    with spark_cluster(tmp_path, installed=True) as cluster:
        done = cluster.python(str(job), str(folder), cluster.url)
        assert done.returncode == 0, done.stderr
        assert answer(done.stdout) == {"master": cluster.url} | EXPECTED


@pytest.mark.timeout(900)
async def test_a_lake_in_an_object_store(tmp_path: Path, stage: Stage) -> None:
    """The workers have no jar for it, and not the driver's environment; a lake in a folder tells the same."""
    need_spark()
    await fill(stage)
    await trio.to_thread.run_sync(_compare, tmp_path, stage.dsn)


def _compare(tmp_path: Path, store: str) -> None:
    with object_server(tmp_path) as server, spark_cluster(tmp_path, installed=True) as cluster:
        few = "--conf spark.sql.shuffle.partitions=4 pyspark-shell"
        cluster.environment |= server.environment | {"PYSPARK_SUBMIT_ARGS": few}

        def job(name: str, *options: str) -> str:
            places = ("--dsn", store, "--lake", server.lake, "--master", cluster.url)
            done = cluster.python("-m", "tarry.pipeline", name, *places, *options)
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
            return done.stdout

        archived = [json.loads(line) for line in job("archive", "--rows", "5000", "--json").splitlines()]
        assert archived == [{"table": "messages", "rows": MANY}, {"table": "deliveries", "rows": 4000}]
        assert job("archive") == "nothing new\n"
        assert json.loads(job("audit", "--json"))["clean"]
        window = ("--from", "2023-11-14T00:00:00Z", "--to", "2023-11-15T00:00:00Z")
        job("report", *window, "--output", str(tmp_path / "far"))
        assert server.environment["AWS_SECRET_ACCESS_KEY"] not in cluster.log()
    here = ("--dsn", store, "--lake", str(tmp_path / "lake"), "--master", "local[2]")
    for command in (("archive", *here, "--new-lake"), ("report", *here, *window, "--output", str(tmp_path / "near"))):
        done = archiver.run(*command)
        assert done.returncode == 0, done.stderr
    near, far = _figures(tmp_path / "near"), _figures(tmp_path / "far")
    assert near == far
    assert near["overview"][0]["messages"] == MANY


def _figures(report: Path) -> dict[str, list[dict[str, Any]]]:
    told = {path.stem: json.loads(path.read_text("utf-8"))["rows"] for path in (report / "figures").glob("*.json")}
    return {name: without_ties(rows) for name, rows in told.items()}
