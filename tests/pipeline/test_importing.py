"""Imports into MySQL and over HTTP: every row once, whatever runs twice, grows or is killed."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql
import pytest
from attrs import evolve
from pyspark.sql import SparkSession

from support.server import client_of, start_server
from support.stores import MySQLTables, store_with
from support.terminal import Terminal
from tarry.pipeline.errors import NotFound, StoreAway
from tarry.pipeline.pace import Pace
from tarry.pipeline.sending import import_marks, importing, mysql_import, progress
from tarry.pipeline.sending.column_mapping import ColumnMapping
from tarry.pipeline.sending.importing import Job, Summary
from tarry.pipeline.sending.input_files import read_rows
from tarry.store.catalogue import TopicDraft
from tarry.store.content import ATTRIBUTES
from tarry.store.ids import IdMaker

pytestmark = pytest.mark.long


SAMPLE = str(files("tarry.service.demo").joinpath("sample", "flights-2013-11-27.csv"))
FLIGHTS = 1014
LATER = "2033-01-01T00:00:00Z"


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of a database with the topics `flights` (three queues) and `ordered`, for all tests of a server."""
    topics = TopicDraft("flights", queues=3), TopicDraft("ordered", queues=2, ordered=True)
    with store_with(request.getfixturevalue(f"{request.param}_server"), *topics) as dsn:
        yield dsn


@pytest.fixture
def tables(store: str) -> Iterator[MySQLTables]:
    tables = MySQLTables(store)
    for table in ("delay", "idempotency", "label"):
        tables.rows(f"DELETE FROM {table}")
    yield tables
    tables.close()


def job_of(spark: SparkSession, dsn: str, *names: str, **rest: Any) -> Job:
    how: dict[str, Any] = {"topic": "flights", "mapping": ColumnMapping(), "name": importing.name_of(names)} | rest
    return Job(rows=read_rows(spark, names, None), dsn=dsn, **how)


def counts(summary: Summary) -> tuple[int, int, int, int]:
    return summary.read, summary.imported, summary.skipped, summary.bad


def bodies(tables: MySQLTables) -> Counter[bytes]:
    return Counter(row[0] for row in tables.rows("SELECT body FROM delay"))


def counted(tables: MySQLTables) -> int:
    """How many messages the topics' counters say were accepted to wait."""
    return int(tables.rows("SELECT SUM(scheduled) FROM tally")[0][0])


def test_a_day_of_flights_is_imported_once(spark: SparkSession, store: str, tables: MySQLTables) -> None:
    mapping = ColumnMapping(deliver_at="time_hour", key="tailnum", ordering_key="tailnum", tag="carrier")
    job = job_of(spark, store, SAMPLE, mapping=mapping)
    assert counts(importing.run(spark, evolve(job, dry_run=True))) == (FLIGHTS, FLIGHTS, 0, 0)
    assert not bodies(tables), "a dry run writes nothing"
    assert counts(importing.run(spark, job)) == (FLIGHTS, FLIGHTS, 0, 0)
    with Path(SAMPLE).open() as lines:
        flights = list(csv.DictReader(lines))
    assert Counter(json.dumps(flight) for flight in flights) == Counter(
        json.dumps(json.loads(body)) for body in bodies(tables).elements()
    )
    rows = tables.rows("SELECT shard, id, due, queue_id, `key`, tag, deliver_at, accepted_at, uncounted FROM delay")
    now = max(row[7] for row in rows)
    for shard, id_, due, _, key, tag, deliver_at, accepted_at, uncounted in rows:
        assert (shard, due, uncounted) == (id_ & 15, id_ >> 21, 0)
        assert accepted_at <= due <= now + 2000, "past times are now, and never before"
        assert deliver_at < accepted_at
        assert tag is not None
        assert key is not None
    assert {row[3] for row in rows} == {row[0] for row in tables.rows("SELECT id FROM queue WHERE topic_id = 1")}
    labels = tables.rows("SELECT l.`key` = d.`key` FROM label l JOIN delay d USING (id)")
    assert labels == [(1,)] * FLIGHTS
    assert counts(importing.run(spark, job)) == (FLIGHTS, 0, FLIGHTS, 0), "the second run adds nothing"
    assert sum(bodies(tables).values()) == counted(tables) == FLIGHTS
    other = evolve(job, name="another")
    assert counts(importing.run(spark, other)) == (FLIGHTS, FLIGHTS, 0, 0), "another import is another one"


def test_a_file_that_has_grown_and_equal_rows(
    spark: SparkSession, store: str, tables: MySQLTables, tmp_path: Path
) -> None:
    file = tmp_path / "rows.ndjson"
    lines = [json.dumps({"n": n % 7, "at": LATER}) for n in range(20)]
    file.write_text("\n".join(lines))
    job = job_of(spark, store, str(file), mapping=ColumnMapping(deliver_at="at"))
    assert counts(importing.run(spark, job)) == (20, 20, 0, 0), "equal rows are messages each"
    lines = [*lines[10:], *(json.dumps({"n": n % 9, "at": LATER}) for n in range(9)), *lines[:10]]
    file.write_text("\n".join(lines))
    job = job_of(spark, store, str(file), mapping=ColumnMapping(deliver_at="at"))
    assert counts(importing.run(spark, job)) == (29, 9, 20, 0), "wherever in the file they stand now"
    assert bodies(tables) == Counter(line.encode() for line in lines)


def test_rows_expire_with_and_without_other_details(
    spark: SparkSession, store: str, tables: MySQLTables, tmp_path: Path
) -> None:
    file = tmp_path / "rows.ndjson"
    ends = {"a": "2033-01-02T00:00:00Z", "b": None, "c": "2032-12-31T00:00:00Z", "d": LATER}
    file.write_text("\n".join(json.dumps({"k": key, "at": LATER, "end": end}) for key, end in ends.items()))
    for key in ("k", None):
        mapping = ColumnMapping(deliver_at="at", expires_at="end", key=key)
        summary = importing.run(spark, job_of(spark, store, str(file), mapping=mapping, name=f"by {key}"))
        assert counts(summary) == (4, 2, 0, 2), "none is past its time before it is due, or as it falls due"
    day = 86_400_000
    assert sorted(tables.rows("SELECT COALESCE(expires_at - deliver_at, 0) FROM delay")) == [(0,), (0,), (day,), (day,)]


def test_bad_rows_go_to_the_error_folder(spark: SparkSession, store: str, tables: MySQLTables, tmp_path: Path) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_text('{"n": 1}\n{"n": 2, "at": "soon"}\noops\n')
    job = job_of(spark, store, str(file), mapping=ColumnMapping(deliver_at="at"), errors=str(tmp_path / "bad"))
    summary = importing.run(spark, job)
    assert counts(summary) == (3, 1, 0, 2)
    assert summary.errors is not None
    bad = [json.loads(line) for part in Path(summary.errors).glob("*.json") for line in part.read_text().splitlines()]
    assert {(row["row"], row["reason"][:12]) for row in bad} == {
        ('{"n": 2, "at": "soon"}', "deliver_at: "),
        ("oops", "the line is "),
    }
    assert all(row["file"].endswith("rows.ndjson") for row in bad)
    assert bodies(tables) == Counter([b'{"n": 1}'])


def test_what_no_reader_can_read_is_not_imported(
    spark: SparkSession, store: str, tables: MySQLTables, tmp_path: Path
) -> None:
    good, of_no_coding = [b'{"n":1}', '{"n":"ü"}'.encode()], [b'{"n":"\xfc"}', b'{"\xfc":1}', b'"\xed\xa0\x80"']
    of_no_form = [b"NaN", b'{"a":Infinity}', b'"\\ud800"', b"1 2", b"{'a':1}", b"\xef\xbb\xbf{}"]
    too_much = [b"1e999", b"[" * 501 + b"]" * 501]
    file = tmp_path / "rows.ndjson"
    file.write_bytes(b"\n".join([*good, *of_no_coding, *of_no_form, *too_much, b""]))
    done = importing.run(spark, job_of(spark, store, str(file), errors=str(tmp_path / "bad")))
    assert counts(done) == (13, 2, 0, 11)
    assert bodies(tables) == Counter(good)
    assert done.errors is not None
    put_away = [line for part in Path(done.errors).glob("*.json") for line in part.read_text("utf-8").splitlines()]
    assert len(put_away) == 9, "those that only the writer looks at so closely are counted alone"


def test_a_missing_topic_is_said_before_anything_is_written(spark: SparkSession, store: str) -> None:
    with pytest.raises(NotFound, match=r"no topic 'planes'.*curl -X PUT"):
        importing.run(spark, job_of(spark, store, SAMPLE, topic="planes"))
    with pytest.raises(StoreAway):
        importing.run(spark, job_of(spark, "mysql://root@127.0.0.1:9/tarry", SAMPLE))


def test_ordered_topics_keep_the_order_of_the_file_within_a_key(
    spark: SparkSession, store: str, tables: MySQLTables, tmp_path: Path
) -> None:
    file = tmp_path / "rows.ndjson"
    # Equal times, so that only the order of the file tells; more of them than a transaction holds.
    rows = [{"n": n, "key": f"key-{n % 5}", "at": LATER} for n in range(9000)]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    job = job_of(spark, store, str(file), topic="ordered", mapping=ColumnMapping(ordering_key="key", deliver_at="at"))
    assert importing.run(spark, job).imported == 9000
    order: dict[bytes, list[int]] = {}
    places: dict[bytes, set[int]] = {}
    for key, queue, body in tables.rows(
        "SELECT ordering_key, queue_id, body FROM delay ORDER BY deliver_at, accepted_at, id"  # as promotion does it
    ):
        order.setdefault(key, []).append(json.loads(body)["n"])
        places.setdefault(key, set()).add(queue)
    assert all(numbers == sorted(numbers) for numbers in order.values())
    assert all(len(queues) == 1 for queues in places.values())
    assert sum(map(len, order.values())) == 9000


@pytest.fixture
def target(store: str, tables: MySQLTables) -> mysql_import.Target:
    return mysql_import.Target(store, 1, "x", 60_000, ordered=False, rate=None, bare=False)


def batch(*numbers: int) -> pa.RecordBatch:
    """Rows as `mysql_import.write` takes them."""
    none = pa.array([None for _ in numbers], pa.string())
    return pa.RecordBatch.from_pydict(
        {
            "part": pa.array([n % import_marks.PARTS for n in numbers], pa.int32()),
            "mark": [n.to_bytes(import_marks.SIZE) for n in numbers],
            "deliver_at": pa.array([None for _ in numbers], pa.int64()),
            "delay": pa.array([60_000 for _ in numbers], pa.int64()),
            "queue_id": pa.array([1 for _ in numbers], pa.int32()),
            "body": [b"%d" % n for n in numbers],
            **dict.fromkeys(ATTRIBUTES, none),
        }
    )


def test_a_chunk_whose_commit_was_not_answered_is_written_once(
    target: mysql_import.Target, tables: MySQLTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql_import.write(target, [batch(1, 2)])
    answers = iter(["lost"])

    original = mysql_import.connect

    def connected(dsn: str) -> Any:
        connection = original(dsn)
        real = connection.commit

        def commit() -> None:
            real()
            for _ in answers:
                connection.close()
                raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

        connection.commit = commit  # type: ignore[method-assign]
        return connection

    monkeypatch.setattr(mysql_import, "connect", connected)
    written = mysql_import.write(target, [batch(2, 3, 4)])
    assert (written.imported, written.skipped) == (2, 1)
    assert tables.rows("SELECT COUNT(*) FROM delay") == [(4,)]


def test_a_row_is_imported_again_when_its_window_is_over(target: mysql_import.Target, tables: MySQLTables) -> None:
    assert mysql_import.write(target, [batch(1), batch(2, 65)]).imported == 3
    tables.rows("UPDATE idempotency SET expires_at = 1 WHERE `key` LIKE '%x%01:%'")
    written = mysql_import.write(target, [batch(1, 2, 65, 66)])
    assert (written.imported, written.skipped) == (3, 1)
    tables.rows("DELETE FROM idempotency WHERE expires_at = 1")  # as the service does
    written = mysql_import.write(target, [batch(66, 65, 2, 1)])
    assert (written.imported, written.skipped) == (0, 4)


def test_two_runs_at_once_import_each_row_once(
    target: mysql_import.Target, tables: MySQLTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others write when the first has looked and has not written yet, and while it counts on what it knows."""
    in_one_part = [number * import_marks.PARTS for number in range(500)]
    rows = [batch(*in_one_part[begin : begin + 50]) for begin in range(0, 500, 50)]
    others = iter([rows[:1], rows[2:5], rows[6:8]])
    original: dict[str, Any] = {verb: getattr(import_marks.Marks, verb) for verb in ("look", "add")}
    calls: list[str] = []

    def watched(verb: str) -> Callable[..., Any]:
        def call(self: import_marks.Marks, *arguments: Any) -> Any:
            calls.append(verb)
            # (What is there is held from the look on: then nobody can write in between.)
            if (verb, calls.count(verb)) in {("add", 1), ("look", 3), ("look", 7)}:
                with monkeypatch.context() as alone:
                    for name, method in original.items():
                        alone.setattr(import_marks.Marks, name, method)
                    mysql_import.write(target, next(others))
            return original[verb](self, *arguments)

        return call

    for verb in original:
        monkeypatch.setattr(import_marks.Marks, verb, watched(verb))
    monkeypatch.setattr(mysql_import, "CHUNK", 70)
    mysql_import.write(target, rows)
    assert next(others, None) is None
    assert tables.rows("SELECT COUNT(*), COUNT(DISTINCT id), COUNT(DISTINCT body) FROM delay") == [(500, 500, 500)]


def test_marks_that_go_while_a_run_counts_on_them_are_missed(
    target: mysql_import.Target, tables: MySQLTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their window ends and they are removed, another run begins anew, and both would write under other numbers."""
    again = iter([1])
    original = import_marks.Marks.look

    def look(self: import_marks.Marks, *arguments: Any) -> Any:
        if bool(self._parts) and next(again, 0):
            tables.rows("DELETE FROM idempotency")
            monkeypatch.setattr(mysql_import, "CHUNK", 10)  # it takes one number, and the first run wants the next
            assert mysql_import.write(target, [batch(65, 129)]).imported == 2
        return original(self, *arguments)

    monkeypatch.setattr(import_marks.Marks, "look", look)
    monkeypatch.setattr(mysql_import, "CHUNK", 1)
    written = mysql_import.write(target, [batch(1, 65, 129)])
    assert next(again, None) is None
    assert (written.imported, written.skipped) == (1, 2)
    assert tables.rows("SELECT COUNT(*), COUNT(DISTINCT body) FROM delay") == [(3, 3)]


def test_another_import_whose_name_begins_alike_is_another(target: mysql_import.Target, tables: MySQLTables) -> None:
    for name in ("x", "x:01:0000000000", "x:01", "x"):
        mysql_import.write(evolve(target, name=name), [batch(1), batch(65)])
    assert tables.rows("SELECT COUNT(*) FROM delay") == [(6,)]


def test_an_id_that_left_is_not_given_again(
    target: mysql_import.Target, tables: MySQLTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    class Narrow(IdMaker):
        def make(self, due: int, **terms: Any) -> int:
            id_ = super().make(due, **terms)
            if not taken:
                taken.append(id_)
                tables.rows(f"INSERT INTO cancelled VALUES ({id_ & 15}, {id_}, 0, 1, NULL, 0, 0, 0)")
            return id_

    monkeypatch.setattr(mysql_import, "IdMaker", Narrow)
    assert mysql_import.write(target, [batch(1)]).imported == 1
    assert tables.rows(f"SELECT COUNT(*) FROM delay WHERE id = {taken[0]}") == [(0,)]
    assert tables.rows("SELECT COUNT(*) FROM delay") == [(1,)]
    tables.rows("DELETE FROM cancelled")


def test_a_pace_is_kept() -> None:
    now, slept = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    pace = Pace(100, lambda: now, sleep)
    for _ in range(5):
        pace.take(50)
    assert slept == pytest.approx([0.5] * 4)
    pace.finish()
    assert now == pytest.approx(2.5), "whoever begins anew does not begin early"
    assert (pace.at_a_time(40), pace.at_a_time(4000), Pace(0.1).at_a_time(9)) == (40, 100, 1)
    slept.clear()
    Pace(None, lambda: now, sleep).take(10**9)
    assert Pace(None).at_a_time(4000) == 4000
    assert not slept


@pytest.mark.parametrize("way", ["mysql", "http"])
def test_a_terminal_shows_how_many_rows_are_done(
    spark: SparkSession,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_text("".join(f'{{"n": {n}}}\n' for n in range(300)))
    terminal = Terminal()
    with ExitStack() as stack:
        if way == "mysql":
            dsn = stack.enter_context(store_with(request.getfixturevalue("mysql_server"), TopicDraft("flights")))
            job = job_of(spark, dsn, str(file), rate=200)
        else:
            server = stack.enter_context(start_server(tmp_path))
            stack.enter_context(client_of(server)).publish("flights", 0)
            job = job_of(spark, "", str(file), server=server.url, rate=200)
        monkeypatch.setattr(progress, "_EVERY", 0.05)
        monkeypatch.setattr(sys, "stderr", terminal)
        assert importing.run(spark, job).imported == 300
        monkeypatch.undo()
    assert spark.sparkContext.getConf().get("spark.ui.showConsoleProgress") == "false", "two would write to one line"
    seen = terminal.counts("importing")
    assert len(set(seen)) > 1
    assert seen == sorted(seen)
    assert seen[-1] <= 300


def test_over_http_into_the_embedded_store(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("n,text,at\n" + "".join(f"{n},\u00fc {n},{'' if n % 2 else LATER}\n" for n in range(200)))
    with start_server(tmp_path) as server, client_of(server) as tarry:
        mapping = ColumnMapping(body="text", content_type="text/plain; charset=utf-8", deliver_at="at", key="n")
        job = job_of(spark, "", str(file), server=server.url, mapping=mapping, topic="lines")
        with pytest.raises(NotFound, match="lines"):
            importing.run(spark, job)
        tarry.publish("lines", 0)
        assert counts(importing.run(spark, job)) == (200, 200, 0, 0)
        assert counts(importing.run(spark, job)) == (200, 0, 200, 0)
        got = [message for message in tarry.pull("lines", 0, 0, max=1000).messages if message.key]
        assert sorted(message.body.decode() for message in got) == sorted(f"\u00fc {n}" for n in range(1, 200, 2))
        assert {message.content_type for message in got} == {"text/plain; charset=utf-8"}
        waiting = list(tarry.find("lines", state="scheduled"))
        assert {message["key"] for message in waiting} == {str(n) for n in range(0, 200, 2)}
