"""Rows of files become drafts: every field, every reason, from files of each format."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tarry.pipeline.errors import NotFound
from tarry.pipeline.sending.column_mapping import ColumnMapping
from tarry.pipeline.sending.import_drafts import DRAFTS, Limits, drafts
from tarry.pipeline.sending.input_files import Format, is_json, read_rows

NOW = 1_700_000_000_000
DAY = 86_400_000


def of(
    spark: SparkSession, file: Path, mapping: ColumnMapping, format_: Format | None = None, limits: Limits | None = None
) -> list[Any]:
    frame = drafts(read_rows(spark, [str(file)], format_), mapping, NOW, limits or Limits())
    assert [(field.name, field.dataType) for field in frame.schema] == [(f.name, f.dataType) for f in DRAFTS]
    return sorted(frame.collect(), key=lambda row: (row["file"], row["block"], row["line"]))


def write(folder: Path, name: str, *lines: str) -> Path:
    file = folder / name
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return file


def test_a_row_of_a_csv_is_a_message_with_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "rows.csv",
        "number,at,customer,kind,extra,empty",
        '7,2023-11-15T10:00:00.0001Z,Zoë,new,"{""a"": 1, ""b"": ""x""}",',
        '8,2023-11-15T12:00:00+02:00,"says ""hi"", twice",,,',
    )
    mapping = ColumnMapping(deliver_at="at", key="customer", ordering_key="customer", tag="kind", headers="extra")
    first, second = of(spark, file, mapping)
    assert first["reason"] is None
    assert second["reason"] is None
    assert first["deliver_at"] == 1_700_042_400_001, "rounded up: never early"
    assert second["deliver_at"] == 1_700_042_400_000
    assert (first["key"], first["ordering_key"], first["tag"]) == ("Zoë", "Zoë", "new")
    assert (second["key"], second["tag"], second["headers"]) == ('says "hi", twice', None, None)
    assert json.loads(first["headers"]) == {"a": "1", "b": "x"}
    assert json.loads(bytes(first["body"])) == {
        "number": "7",
        "at": "2023-11-15T10:00:00.0001Z",
        "customer": "Zoë",
        "kind": "new",
        "extra": '{"a": 1, "b": "x"}',
        "empty": None,
    }
    assert first["content_type"] is None


def test_a_row_that_expires(spark: SparkSession, tmp_path: Path) -> None:
    """`NOW` is 2023-11-14T22:13:20Z."""
    file = write(
        tmp_path,
        "rows.csv",
        "at,end",
        "2023-11-15T10:00:00Z,2023-11-15T10:00:00.0001Z",
        "2023-11-15T10:00:00Z,2023-11-15T10:00:00Z",
        ",2023-11-14T22:13:20Z",
        "2020-01-01T00:00:00Z,2023-11-14T22:13:20.001Z",
        ",tomorrow",
        ",",
    )
    rows = of(spark, file, ColumnMapping(deliver_at="at", expires_at="end"))
    assert [row["expires_at"] for row in rows if row["reason"] is None] == [1_700_042_400_001, NOW + 1, None]
    past = "expires_at: it is past, or not after the time it is to be delivered"
    told = [row["reason"] for row in rows]
    assert told[:4] == [None, past, past, None]
    assert told[4].startswith("expires_at: it is no time")
    later = write(tmp_path, "later.csv", "wait,end", "10m,2023-11-14T22:23:20Z", "10m,2023-11-14T22:23:20.001Z")
    delayed = of(spark, later, ColumnMapping(delay="wait", expires_at="end"))
    assert [row["reason"] for row in delayed] == [past, None]


def test_rows_that_cannot_be_messages_say_why(spark: SparkSession, tmp_path: Path) -> None:
    long = "k" * 256
    cases = {
        ("b", "1", "tomorrow"): "deliver_at: it is no time",
        ("b", "1", "2023-11-15 10:00:00"): "say --zone",
        ("b", "1", "2023-11-15T25:00:00Z"): "deliver_at: it is no time",
        ("b", "1", "2093-11-15T10:00:00Z"): "further ahead",
        ("b", "1", "1960-11-15T10:00:00Z"): "before 1970",
        (long, "1", ""): "key: it has 256 bytes, and may have 255",
        ("b", "", ""): "body: there is none",
        ("b", "not json", ""): "body: it is not JSON",
        ("b", '"' + "x" * 100 + '"', ""): "body: it has 102 bytes, and may have 99",
        ("b", "1", "1700000000000"): None,
        ("b", "1", ""): None,
    }
    lines = [",".join('"' + cell.replace('"', '""') + '"' for cell in case) for case in cases]
    file = write(tmp_path, "rows.csv", "key,payload,at", *lines, "torn")
    rows = of(spark, file, ColumnMapping(body="payload", key="key", deliver_at="at"), limits=Limits(max_body=99))
    for row, (case, expected) in zip(rows, cases.items(), strict=False):
        if expected is None:
            assert row["reason"] is None, case
        else:
            assert expected in row["reason"], case
    assert rows[-1]["reason"] == "the line has not as many fields as the header"
    assert json.loads(rows[0]["row"]) == {"key": "b", "payload": "1", "at": "tomorrow"}
    assert rows[0]["file"].endswith("rows.csv")


def test_times_without_a_zone_are_read_in_the_one_that_is_said(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, "rows.csv", "at", "2023-11-15 11:00:00", "2023-11-15T10:00:00Z", "2023-07-15 11:00:00.5")
    rows = of(spark, file, ColumnMapping(deliver_at="at", zone="Europe/Berlin"))
    assert [row["deliver_at"] for row in rows] == [1_700_042_400_000, 1_700_042_400_000, 1_689_411_600_500]


def test_delays(spark: SparkSession, tmp_path: Path) -> None:
    delays = {
        "1500": 1500,
        "10m": 600_000,
        "1h30m": 5_400_000,
        "250ms": 250,
        "1.5s": 1500,
        "2w1d": 15 * DAY,
        "PT10M": 600_000,
        "P1DT2H": DAY + 7_200_000,
        "PT0.0001S": 1,
        "": None,
    }
    wrong = ("soon", "-5", "1y", "P1Y", "5 m", "PT", "99999d")
    file = write(tmp_path, "rows.csv", "n,in", *(f"1,{delay}" for delay in (*delays, *wrong)))
    rows = of(spark, file, ColumnMapping(delay="in"))
    assert [row["delay"] for row in rows[: len(delays)]] == list(delays.values())
    assert all(row["reason"] is None for row in rows[: len(delays)])
    assert all(row["reason"].startswith("delay: ") for row in rows[len(delays) :])


def test_a_line_of_ndjson_is_the_body_as_it_came(spark: SparkSession, tmp_path: Path) -> None:
    lines = (
        '{"id": 1,  "who": {"name": "Zoë"}, "at": "2023-11-15T10:00:00Z", "p": "text", "n": 1.50}',
        "{oops",
        "[1] x",
    )
    file = write(tmp_path, "rows.ndjson", lines[0], "", *lines[1:])
    first, *bad = of(spark, file, ColumnMapping(key="who.name", deliver_at="at"))
    assert bytes(first["body"]).decode() == lines[0]
    assert (first["key"], first["deliver_at"], first["reason"]) == ("Zoë", 1_700_042_400_000, None)
    assert [row["reason"] for row in bad] == ["the line is not JSON"] * 2
    assert bytes(of(spark, file, ColumnMapping(body="p"))[0]["body"]) == b'"text"'
    assert bytes(of(spark, file, ColumnMapping(body="who"))[0]["body"]) == '{"name":"Zoë"}'.encode()
    assert of(spark, file, ColumnMapping(body="missing"))[0]["reason"] == "body: there is none"


def test_columns_of_parquet_keep_their_types(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT 7 AS number, TIMESTAMP '2023-11-15 10:00:00.000001' AS at, X'00FF' AS raw, "
        "named_struct('a', 1.5D, 'b', array('x')) AS nested, map('h', 'v') AS headers, 1700000000001L AS ms, "
        "1700000000L AS s, TIMESTAMP_NTZ '2023-11-15 11:00:00' AS local"
    )
    folder = tmp_path / "rows.parquet"
    frame.write.parquet(str(folder))
    (row,) = of(spark, folder, ColumnMapping(body="raw", deliver_at="at", headers="headers", key="number"))
    assert (bytes(row["body"]), row["content_type"]) == (b"\x00\xff", "application/octet-stream")
    assert (row["deliver_at"], row["headers"], row["key"]) == (1_700_042_400_001, '{"h":"v"}', "7")
    (row,) = of(spark, folder, ColumnMapping(body="nested", deliver_at="ms"))
    assert (bytes(row["body"]), row["deliver_at"]) == (b'{"a":1.5,"b":["x"]}', 1_700_000_000_001)
    (row,) = of(spark, folder, ColumnMapping(body="nested", deliver_at="s"))
    assert row["reason"] == "deliver_at: it looks like seconds, and milliseconds are wanted"
    assert bytes(of(spark, folder, ColumnMapping(body="number"))[0]["body"]) == b"7"
    (row,) = of(spark, folder, ColumnMapping(body="number", deliver_at="local", zone="Europe/Berlin"))
    assert row["deliver_at"] == 1_700_042_400_000
    with pytest.raises(ValueError, match="--zone"):
        of(spark, folder, ColumnMapping(body="number", deliver_at="local"))


def test_identity_is_of_the_content_or_of_the_columns_that_are_named(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, "rows.csv", "id,v", "1,a", "1,b", "1,a")
    whole = [row["identity"] for row in of(spark, file, ColumnMapping())]
    assert whole[0] == whole[2] != whole[1]
    assert len({row["identity"] for row in of(spark, file, ColumnMapping(id=("id",)))}) == 1


def test_what_cannot_be_is_said_with_the_option(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, "rows.csv", "number,at", "7,2023-11-15T10:00:00Z")
    with pytest.raises(ValueError, match=r"--deliver-at att: the files have no such column; did you mean at\?"):
        of(spark, file, ColumnMapping(deliver_at="att"))
    with pytest.raises(ValueError, match="has one of them"):
        of(spark, file, ColumnMapping(deliver_at="at", delay="number"))
    with pytest.raises(NotFound, match="no such file"):
        read_rows(spark, [str(tmp_path / "missing.csv")], None)
    with pytest.raises(ValueError, match="--format"):
        read_rows(spark, [str(tmp_path / "rows.txt")], None)


def test_json_is_what_every_reader_can_read(spark: SparkSession) -> None:
    good = ('{"a": 1}', "5", '"x"', " null ", "[]", '{"a":{"b":["ü"]}}')
    bad = (
        "",
        "{a:1}",
        "{'a':1}",
        '{"a":NaN}',
        "01",
        "[1,]",
        '{"a":1} x',
        "1,2",
        "1],[2",
        '1},{"y":2',
        '"\\ud800"',
        "1,",
    )
    frame = spark.createDataFrame([(text,) for text in (*good, *bad)], "text string")
    told = {row["text"]: row["good"] for row in frame.select("text", is_json(frame["text"]).alias("good")).collect()}
    assert told == {**dict.fromkeys(good, True), **dict.fromkeys(bad, False)}


def test_a_line_of_another_coding_is_no_message(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_bytes(b'{"name":"Zo\xeb"}\n{"name":"Zo\xc3\xab"}\n"\xed\xa0\x80"\n')
    first, second, third = of(spark, file, ColumnMapping())
    assert first["reason"] == third["reason"] == "the line is not JSON"
    assert (second["reason"], bytes(second["body"])) == (None, '{"name":"Zoë"}'.encode())
