"""A lake in an object store holds and tells what one in a folder does, and what is wrong with it is one sentence."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.lakes import archive, archive_here, archiving, in_lake, in_store, rows, stream_one, without_ties
from support.object_server import BUCKET, ObjectServer, object_server
from support.stores import HOUR, MINUTE, Stage
from support.story import live
from tarry.pipeline.audit.evidence import Scope
from tarry.pipeline.audit.job import examine
from tarry.pipeline.cli.app import run
from tarry.pipeline.errors import LakeError
from tarry.pipeline.history import open_tables
from tarry.pipeline.lake.lake import Lake, Overtaken, Snapshot
from tarry.pipeline.lake.lake_writer import Added
from tarry.pipeline.lake.watching import watch
from tarry.pipeline.report.job import make_report
from tarry.pipeline.report.page import Known
from tarry.pipeline.schemas import IN_LAKE
from tarry.pipeline.spark_errors import translate
from tarry.pipeline.trace.tracing import trace


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    with object_server(tmp_path_factory.mktemp("objects")) as server:
        yield server


@pytest.fixture
def server(spark: SparkSession, running: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """With an empty bucket. The variables are this process's alone: Spark and its workers have begun without them."""
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    running.take_bucket()
    running.give_bucket({})
    return running


@pytest.mark.long
async def test_it_holds_what_a_lake_in_a_folder_does_and_the_jobs_tell_the_same(
    spark: SparkSession, stage: Stage, server: ObjectServer, tmp_path: Path
) -> None:
    await live(stage)
    archive(spark, stage.dsn, tmp_path / "lake", cap=15)
    archive(spark, stage.dsn, server.lake, cap=15, new_lake=True)
    for table in IN_LAKE:
        assert in_lake(spark, server.lake, table) == in_store(spark, stage.dsn, table), table
    told = trace(stage.dsn, server.lake, key="k-0", most=9).events
    assert told == trace(stage.dsn, str(tmp_path / "lake"), key="k-0", most=9).events
    assert told
    assert figures(spark, server.lake, stage.now) == figures(spark, str(tmp_path / "lake"), stage.now)
    scope = Scope(datetime(2100, 1, 1, tzinfo=UTC), archived=True)
    audited = examine(spark, stage.dsn, server.lake, scope, None, 20)
    assert audited["clean"], audited["findings"]


def figures(spark: SparkSession, lake: str, now: int) -> dict[str, Any]:
    tables = open_tables(spark, None, lake, bodies=False)
    report = make_report(tables, Known(store=False, lake=lake, now=now), since=now - HOUR, until=now, title="Test")
    return {name: without_ties(made.rows) for name, made in report.made.items()}


@pytest.mark.long
async def test_the_archive_goes_on_there(spark: SparkSession, stage: Stage, server: ObjectServer) -> None:
    """Spark keeps its checkpoints, too, and cannot write there."""
    topic = await stage.topic()
    await stage.publish(stage.draft(topic, b"1"))
    over = Event()
    commits: list[str] = []

    def note(table: str, _rows: int) -> None:
        commits.append(table)
        if table == "fires":  # the last of the first look at what goes by time: from now on Spark tells what comes
            stream_one(stage, topic.queues[0].id)
        if commits.count("messages") == 2:
            over.set()

    with archiving(spark, stage.dsn, server.lake, progress=note) as archiver:
        watch(archiver, 1, over)
    assert in_lake(spark, server.lake, "messages") == in_store(spark, stage.dsn, "messages")
    assert not any("_watch" in path for path in server.paths())


async def test_only_what_is_asked_for_is_read(spark: SparkSession, stage: Stage, server: ObjectServer) -> None:
    topics = [await stage.topic(name) for name in ("orders", "a.b-c_d", "__HIVE_DEFAULT_PARTITION__")]
    for topic in topics:
        await stage.publish(stage.draft(topic, topic.name.encode(), headers=b'{"h": "1"}', key="k"))
    stage.now += MINUTE
    await stage.publish(stage.draft(topics[0], b"later"))
    archive_here(stage.dsn, server.lake)
    snapshot = Lake(server.lake).open("messages")
    assert snapshot is not None
    assert rows(snapshot.frame(spark).select("topic", "body")) == sorted(
        [(topic.name, topic.name.encode()) for topic in topics] + [("orders", b"later")], key=repr
    )
    assert snapshot.frame(spark, [topics[1].name]).count() == 1
    assert [row.body for row in snapshot.frame(spark, ["orders"], since=stage.now).collect()] == [b"later"]
    assert [row.body for row in snapshot.frame(spark, ["orders"], until=stage.now).collect()] == [b"orders"]
    (bare,) = snapshot.frame(spark, [topics[1].name], unread=("body", "headers")).collect()
    assert (bare.key, bare.body, bare.headers) == ("k", b"", None)
    assert (snapshot.frame(spark).schema.names, bare.day) == ([*bare.asDict()], bare.streamed_at.date())


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def call(*arguments: str) -> tuple[int, str]:
        code = run(arguments)
        return code, capsys.readouterr().err

    return call


WRONG = {
    "AWS_ACCESS_KEY_ID": ("AKIAWRONG", "refuses it"),
    "AWS_SECRET_ACCESS_KEY": ("wrong", "refuses it"),
    "AWS_ENDPOINT_URL": ("http://127.0.0.1:1", "does not answer"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_key_or_address_is_one_sentence(
    name: str,
    stage: Stage,
    server: ObjectServer,
    told: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await stage.publish(stage.draft(await stage.topic(), b"1"))
    value, sentence = WRONG[name]
    command = ("archive", "--dsn", stage.dsn, "--lake", server.lake)
    with monkeypatch.context() as wrong:
        wrong.setenv(name, value)
        code, error = told(*command)
    assert code == 1
    assert error.startswith(f"tarry pipeline: the lake at {server.lake}/messages cannot be used: the object store at ")
    assert sentence in error
    assert error.count("\n") == 1
    assert server.environment["AWS_SECRET_ACCESS_KEY"] not in error
    assert (server.paths(), stage.tables.rows("SELECT * FROM archived")) == ([], [])
    assert told(*command) == (0, "")
    with monkeypatch.context() as wrong:
        wrong.setenv(name, value)
        code, error = told("trace", "--key", "k", "--lake", server.lake)
    assert (code, error.count("\n")) == (1, 1)
    assert sentence in error


async def test_a_bucket_that_is_gone_is_one_sentence_and_its_return_is_gone_on_with(
    spark: SparkSession, stage: Stage, server: ObjectServer, told: Callable[..., tuple[int, str]]
) -> None:
    topic = await stage.topic("orders", queues=2)
    await stage.publish(*(stage.draft(topic, b"%d" % at, queue=at % 2, key=f"k-{at}") for at in range(40)))
    command = ("archive", "--dsn", stage.dsn, "--lake", server.lake)
    gone = f"the object store at {server.url} has no bucket {BUCKET}. Make it or put it back, or correct --lake"
    before = server.take_bucket()
    assert told(*command) == (1, f"tarry pipeline: the lake at {server.lake}/messages cannot be used: {gone}\n")
    assert stage.tables.rows("SELECT * FROM archived") == []
    server.give_bucket(before)

    kept: list[dict[str, bytes]] = []

    def take(_table: str, _rows: int) -> None:
        if not kept:
            kept.append(server.take_bucket())

    with (
        archiving(spark, stage.dsn, server.lake, cap=5, progress=take) as archiver,
        pytest.raises(LakeError, match=re.escape(gone)),
    ):
        archiver.run()
    assert archiver.rows == {"messages": 5}
    server.give_bucket(kept[0])
    assert len(in_lake(spark, server.lake, "messages")) == 5
    marks = {queue: upto for queue, upto in stage.tables.rows("SELECT queue_id, upto FROM archived") if queue}
    snapshot = Lake(server.lake).open("messages")
    assert snapshot is not None
    assert snapshot.positions(map(str, marks)) == {str(queue): upto for queue, upto in marks.items()}

    assert told(*command) == (0, "")
    assert in_lake(spark, server.lake, "messages") == in_store(spark, stage.dsn, "messages")


async def test_a_bucket_or_a_file_that_goes_while_it_is_read_is_one_sentence(
    spark: SparkSession, stage: Stage, server: ObjectServer
) -> None:
    await stage.publish(stage.draft(await stage.topic(), b"1"))
    archive_here(stage.dsn, server.lake)
    whole = in_lake(spark, server.lake, "messages")
    read = open_tables(spark, None, server.lake).messages
    content = server.take_bucket()
    (file,) = (path for path in content if path.endswith(".parquet") and "/messages/" in path)

    def error() -> str:
        with pytest.raises(PySparkException) as raised:
            read.collect()
        found = translate(raised.value)
        assert isinstance(found, LakeError)
        return str(found)

    assert error() == (
        f"the lake at {server.lake}/messages cannot be read: the object store at {server.url} has no bucket {BUCKET}."
        " Make it or put it back, or correct --lake"
    )
    server.give_bucket({path: data for path, data in content.items() if path != file})
    assert error().startswith(f"a file that the lake lists is missing: s3://{file}. Put it back from a backup")
    server.give_bucket(content)
    assert in_lake(spark, server.lake, "messages") == whole


class Late(Lake):
    """Another archiver commits between its look at a table and its own commit."""

    between: Callable[[], object] | None = None

    def ensure(self, table: str) -> Snapshot:
        seen = super().ensure(table)
        if self.between is not None:
            between, self.between = self.between, None
            between()
        return seen


def test_of_two_archivers_at_once_one_wins(server: ObjectServer) -> None:
    first, late = Lake(server.lake), Late(server.lake)
    first.ensure("messages")
    added = Added("topic=t/day=2026-01-31/of-the-late.parquet", 1, 1, "t", "2026-01-31", "{}")
    late.between = partial(first.commit, "messages", [], {"7": None}, {"7": 5})
    with pytest.raises(Overtaken):
        late.commit("messages", [added], {"7": None}, {"7": 9})
    snapshot = first.open("messages")
    assert snapshot is not None
    assert (snapshot.position("7"), snapshot.files()) == (5, [])
