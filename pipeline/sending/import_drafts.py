"""Turns rows of files into drafts of messages: from DataFrame to DataFrame, with the checks of the service's API.

A row that cannot be a message keeps its `reason`; the others have none, and are ready to be written.
"""

from functools import reduce

from attrs import frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as t

from ...store.content import LABELS
from ...store.records import MAX_HEADERS
from ..schemas import LONG, TEXT, schema_of
from .column_mapping import ColumnMapping
from .input_files import Rows, is_json

DRAFTS = schema_of(
    ("identity", TEXT, True),  # of the row's content, or of its --id columns
    ("file", TEXT, True),
    ("block", LONG, True),  # where in the file its split begins
    ("line", LONG, True),  # ascending within a split, with gaps
    ("deliver_at", LONG, True),  # Unix milliseconds; null: at once, or after `delay`
    ("delay", LONG, True),  # milliseconds from the moment it is written
    ("expires_at", LONG, True),  # Unix milliseconds
    *((name, TEXT, True) for name in LABELS),
    ("headers", TEXT, True),  # a JSON object
    ("content_type", TEXT, True),  # null: the body is JSON
    ("body", t.BinaryType(), True),
    ("row", TEXT, True),  # as it came, as JSON where it was not text
    ("reason", TEXT, True),  # why it cannot be a message
)

_UNITS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"
_SHORT = "^(" + "|".join(rf"\d{{1,15}}(\.\d{{1,9}})?{unit}" for unit in ("ms", "w", "d", "h", "m", "s")) + ")+$"
_ISO = (
    rf"^P(?=[0-9T])(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?=[0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?$"
)
_TIME = r"^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,30})?"
_SECONDS = 10_000_000_000
"""Milliseconds up to April 1970, when there were no messages: such numbers are present times in seconds, and all their
messages would go at once."""
_ZONE = r"([Zz]|[+-]\d{2}:\d{2})$"


@frozen
class Limits:
    """The limits of the service's settings, by default."""

    max_body: int = 256 << 10
    max_key: int = 255
    max_delay: int = 3650 * 86_400_000
    """Milliseconds."""


def drafts(rows: Rows, mapping: ColumnMapping, now: int, limits: Limits) -> DataFrame:
    """The rows as `DRAFTS`, good and bad. How far ahead a time may be is measured from `now` (Unix milliseconds).

    Raises ValueError for a column that is not there or has a type that does not fit.
    """
    mapping.check()
    if mapping.id and rows.format != "ndjson":
        for name in mapping.id:
            rows.column(name, "--id")
    deliver_at, wrong_time = _deliver_at(rows, mapping, now, limits)
    delay, wrong_delay = _delay(rows, mapping, limits)
    due = fn.greatest(fn.lit(now), deliver_at, fn.lit(now) + delay)
    expires_at, wrong_end = _expires_at(rows, mapping, due)
    body, content_type, wrong_body = _body(rows, mapping)
    headers, wrong_headers = _headers(rows, mapping)
    labels = {
        name: _none() if column is None else rows.text(column, f"--{name.replace('_', '-')}")
        for name, column in ((name, getattr(mapping, name)) for name in LABELS)
    }
    too_large = _too_large("body", body, limits.max_body)
    wrong_labels = [_too_large(name, text, limits.max_key) for name, text in labels.items()]
    reason = fn.coalesce(
        rows.torn(), wrong_body, too_large, wrong_time, wrong_delay, wrong_end, *wrong_labels, wrong_headers, _none()
    )
    return rows.frame.select(
        _identity(rows, mapping, deliver_at).alias("identity"),
        fn.col("_metadata.file_path").alias("file"),
        fn.col("_metadata.file_block_start").alias("block"),
        fn.monotonically_increasing_id().alias("line"),
        deliver_at.alias("deliver_at"),
        delay.alias("delay"),
        expires_at.alias("expires_at"),
        *(text.alias(name) for name, text in labels.items()),
        headers.alias("headers"),
        content_type.alias("content_type"),
        body.alias("body"),
        rows.whole().alias("row"),
        reason.alias("reason"),
    )


def _too_large(name: str, value: Column, most: int) -> Column:
    """Why this part cannot be sent, if it has more bytes than `most`."""
    size = fn.octet_length(value)
    return fn.when(size > most, fn.format_string(f"{name}: it has %d bytes, and may have {most}", size))


def _identity(rows: Rows, mapping: ColumnMapping, deliver_at: Column) -> Column:
    if mapping.id:
        names = fn.to_json(fn.array(*[rows.text(name, "--id") for name in mapping.id]))
        return fn.substring(fn.sha2(names.cast("binary"), 256), 1, 32)
    digest = fn.substring(fn.sha2(rows.whole().cast("binary"), 256), 1, 32)
    if mapping.deliver_at is None:
        return digest
    # The time first: so a chunk of neighbours is written in one place of each of its two tables.
    return fn.concat(
        fn.lpad(fn.lower(fn.hex(fn.greatest(fn.coalesce(deliver_at, fn.lit(0)), fn.lit(0)))), 11, "0"), digest
    )


def _body(rows: Rows, mapping: ColumnMapping) -> tuple[Column, Column, Column]:
    """The body, its content type, and what is wrong with it."""
    as_is = _none() if mapping.content_type is None else fn.lit(mapping.content_type)
    if mapping.body == "*":
        return rows.whole().cast("binary"), as_is, _none()
    column = rows.column(mapping.body, "--body")
    type_ = rows.type_of(mapping.body)
    if isinstance(type_, t.BinaryType):
        body, kind = column, fn.lit(mapping.content_type or "application/octet-stream")
        return body, kind, fn.when(column.isNull(), "body: there is none")
    if mapping.content_type is not None:
        text = rows.text(mapping.body, "--body")
        return text.cast("binary"), as_is, fn.when(text.isNull(), "body: there is none")
    if isinstance(type_, t.StringType):
        wrong = fn.when(column.isNull(), "body: there is none").when(
            ~is_json(column), "body: it is not JSON; for plain text say --content-type text/plain"
        )
        return column.cast("binary"), as_is, wrong
    if isinstance(type_, t.VariantType):
        text = fn.to_json(column)
    else:
        listed = fn.to_json(fn.array(column), {"ignoreNullFields": "false"})
        text = fn.when(column.isNotNull(), fn.substr(listed, fn.lit(2), fn.length(listed) - 2))
    return text.cast("binary"), as_is, fn.when(text.isNull(), "body: there is none")


def _headers(rows: Rows, mapping: ColumnMapping) -> tuple[Column, Column]:
    if mapping.headers is None:
        return _none(), _none()
    text = rows.text(mapping.headers, "--headers")
    read = fn.from_json(text, "map<string,string>")
    headers = fn.when(fn.size(read) > 0, fn.to_json(read))
    wrong = (
        fn.when(text.isNotNull() & (~is_json(text) | read.isNull()), "headers: it is not a JSON object")
        .when(fn.map_contains_key(read, ""), "headers: no name is empty")
        .when(fn.exists(fn.map_values(read), lambda value: value.isNull()), "headers: values are text, not null")
        .when(fn.octet_length(headers) > MAX_HEADERS, f"headers: they may have {MAX_HEADERS} bytes as JSON")
    )
    return headers, wrong


def _deliver_at(rows: Rows, mapping: ColumnMapping, now: int, limits: Limits) -> tuple[Column, Column]:
    """Unix milliseconds, rounded up: a message may be late, and never early."""
    if mapping.deliver_at is None:
        return fn.lit(None).cast("long"), _none()
    time, wrong = _instant(rows, mapping.deliver_at, "deliver_at", mapping.zone)
    too_far = fn.when(time > now + limits.max_delay, "deliver_at: it is further ahead than a message may wait")
    return time, fn.coalesce(wrong, too_far.when(time < 0, "deliver_at: it is before 1970"))


def _expires_at(rows: Rows, mapping: ColumnMapping, due: Column) -> tuple[Column, Column]:
    """Unix milliseconds, rounded up as everywhere. `due`: when the message may first be handed out."""
    if mapping.expires_at is None:
        return fn.lit(None).cast("long"), _none()
    time, wrong = _instant(rows, mapping.expires_at, "expires_at", mapping.zone)
    past = fn.when(time <= due, "expires_at: it is past, or not after the time it is to be delivered")
    return time, fn.coalesce(wrong, past)


def _instant(rows: Rows, name: str, part: str, zone: str | None) -> tuple[Column, Column]:
    """The time in a column, Unix milliseconds, rounded up; and what is wrong with it."""
    option = f"--{part.replace('_', '-')}"
    column = rows.column(name, option)
    type_ = rows.type_of(name)
    text = rows.text(name, option)
    if isinstance(type_, t.IntegralType):
        time = column.cast("long")
    elif isinstance(type_, t.TimestampType):
        time = _up(fn.unix_micros(column))
    elif isinstance(type_, t.TimestampNTZType | t.DateType):
        if zone is None:
            raise ValueError(f"{option} {name}: its times have no zone; say --zone UTC or another one")
        time = _up(fn.unix_micros(fn.to_utc_timestamp(column.cast("timestamp_ntz").cast("timestamp"), zone)))
    else:
        time = _of_text(text, zone)
    no_zone = "" if zone else "; without a zone say --zone"
    wrong = fn.when(
        text.isNotNull() & time.isNull(), fn.concat(fn.lit(f"{part}: it is no time as in RFC 3339"), fn.lit(no_zone))
    ).when(
        fn.lit(isinstance(type_, t.IntegralType)) & time.between(1, _SECONDS),
        f"{part}: it looks like seconds, and milliseconds are wanted",
    )
    return time, wrong


def _of_text(text: Column, zone: str | None) -> Column:
    whole, finer = rf"{_TIME}{_ZONE}", r"\.\d{6}\d*[1-9]"
    moment = fn.unix_micros(fn.try_to_timestamp(fn.upper(text))) + fn.when(text.rlike(finer), 1).otherwise(0)
    known = fn.when(text.rlike(r"^\d{11,14}$"), text.cast("long")).when(text.rlike(whole), _up(moment))
    if zone is None:
        return known
    bare = rf"{_TIME}$"
    local = fn.unix_micros(fn.to_utc_timestamp(fn.try_to_timestamp(fn.upper(text)), zone))
    return known.when(text.rlike(bare), _up(local + fn.when(text.rlike(finer), 1).otherwise(0)))


def _up(micros: Column) -> Column:
    return fn.ceil(micros / 1000).cast("long")


def _delay(rows: Rows, mapping: ColumnMapping, limits: Limits) -> tuple[Column, Column]:
    if mapping.delay is None:
        return fn.lit(None).cast("long"), _none()
    text = rows.text(mapping.delay, "--delay")

    def part(pattern: str, group: int, unit: str) -> Column:
        found = fn.regexp_extract(text, pattern, group)
        return fn.coalesce(fn.when(found != "", found.cast("decimal(28,9)")), fn.lit(0)) * _UNITS[unit]

    def total(parts: list[Column]) -> Column:
        return fn.least(fn.ceil(reduce(Column.__add__, parts)), fn.lit(10**15)).cast("long")

    delay = (
        fn.when(text.rlike(r"^\d{1,18}$"), text.cast("long"))
        .when(text.rlike(_SHORT), total([part(rf"{_NUMBER}{unit}(?![a-z])", 1, unit) for unit in _UNITS]))
        .when(text.rlike(_ISO), total([part(_ISO, group, unit) for group, unit in enumerate("wdhms", 1)]))
    )
    wrong = fn.when(
        text.isNotNull() & delay.isNull(), 'delay: it is no duration: milliseconds, "10m", "1h30m" or "PT10M"'
    ).when(delay > limits.max_delay, "delay: it is longer than a message may wait")
    return delay, wrong


def _none() -> Column:
    return fn.lit(None).cast("string")
