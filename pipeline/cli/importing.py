"""`tarry pipeline import`: files of rows become messages."""

import re
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from cyclopts import Parameter

from .codes import FAILED
from .options import AsJson, Master, check_rate, store_of
from .summary import show_summary


def import_(
    *files: str,
    topic: str,
    body: str = "*",
    deliver_at: str | None = None,
    delay: str | None = None,
    key: str | None = None,
    ordering_key: str | None = None,
    tag: str | None = None,
    headers: str | None = None,
    content_type: str | None = None,
    id: Annotated[tuple[str, ...], Parameter(negative=())] = (),  # noqa: A002 - the option's name
    zone: str | None = None,
    format: Literal["parquet", "csv", "ndjson"] | None = None,  # noqa: A002 - the option's name
    multi_line: Annotated[bool, Parameter(negative=())] = False,
    name: str | None = None,
    dsn: Annotated[
        str | None, Parameter(help="MySQL or MariaDB: mysql://USER:PASSWORD@HOST/DATABASE. [TARRY_DSN]")
    ] = None,
    server: str | None = None,
    rate: float | None = None,
    window: str = "7d",
    errors: str | None = None,
    strict: Annotated[bool, Parameter(negative=())] = False,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    as_json: AsJson = False,
    master: Master = None,
) -> int:
    """Imports Parquet, CSV or NDJSON as messages, each row once, however often it is run.

    Into MySQL with `--dsn`, partition by partition; into any store with `--server`, over HTTP.

    Parameters
    ----------
    files
        Paths, folders, patterns or URLs, as Spark takes them.
    topic
        It must exist.
    body
        The column that holds the body; `*` is the whole row as a JSON object.
    deliver_at
        The column with the time: RFC 3339, Unix milliseconds, or a timestamp of Parquet's.
    delay
        The column with a delay from now: milliseconds, 10m, PT10M.
    key
        The column with the key.
    ordering_key
        The column with the ordering key.
    tag
        The column with the tag.
    headers
        The column with the headers, a JSON object.
    content_type
        Of bodies that are no JSON, such as text/plain.
    id
        Columns that name a row, when its content is not what makes it another one.
    zone
        Of times without a zone, such as Europe/Berlin.
    format
        When the names of the files do not tell.
    multi_line
        Fields of the CSV hold line breaks; a file is then read by one task.
    name
        Of the import: rows that it brought before are passed over. The names of the files otherwise.
    server
        http://host:port, in place of a DSN.
    rate
        Rows a second at the most, of all tasks together.
    window
        How long rows are remembered.
    errors
        A folder or URL: rows that cannot be messages go there, with reasons.
    strict
        Exit with 1 when any row was bad.
    dry_run
        Check and count, and write no message.
    """
    from .. import session

    session.check()
    from ...client.durations import milliseconds
    from ..sending import importing
    from ..sending.import_drafts import Mapping
    from ..sending.input_files import read_rows

    if not files:
        raise ValueError("name a file at least")
    if server is not None and dsn is not None:
        raise ValueError("--dsn and --server: leave one of them out")
    if server is None:
        dsn = store_of(dsn)
        if not dsn.startswith("mysql://"):
            raise ValueError(
                f"{dsn.partition(':')[0]}: only its server may write to this store; start it and say --server http://..."
            )
    check_rate(rate, "rows")
    if deliver_at is not None and delay is not None:
        raise ValueError("--deliver-at and --delay: a message has one of them")
    if zone is not None:
        _check_zone(zone)
    try:
        remembered = milliseconds(window)
    except ValueError as error:
        raise ValueError(f"--window: {error}") from error
    mapping = Mapping(
        body=body,
        deliver_at=deliver_at,
        delay=delay,
        key=key,
        ordering_key=ordering_key,
        tag=tag,
        headers=headers,
        content_type=content_type,
        id=tuple(id),
        zone=zone,
    )
    importing.check_topic(topic, dsn=dsn or "", server=server or "")
    spark = session.open_session("import", master)
    job = importing.Job(
        rows=read_rows(spark, files, format, multi_line=multi_line),
        mapping=mapping,
        topic=topic,
        name=importing.checked_name(name) if name is not None else importing.name_of(files),
        dsn=dsn or "",
        server=server or "",
        rate=rate,
        window=remembered,
        errors=errors,
        dry_run=dry_run,
    )
    summary = importing.run(spark, job)
    show_summary(
        {
            "name": summary.name,
            "topic": summary.topic,
            "read": summary.read,
            "would_import" if dry_run else "imported": summary.imported,
            "skipped": summary.skipped,
            "bad": summary.bad,
            "errors": summary.errors,
            "earliest": summary.earliest,
            "latest": summary.latest,
            "seconds": summary.seconds,
            "rows_per_second": summary.rate,
        },
        as_json=as_json,
    )
    return FAILED if (strict and summary.bad) or (summary.read and summary.bad == summary.read) else 0


def _check_zone(zone: str) -> None:
    """Raises ValueError for what neither a region nor an offset is, as Spark knows them."""
    if re.fullmatch(r"[+-]\d\d:\d\d", zone):
        return
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f'--zone: "{zone}" is no zone, such as Europe/Berlin, UTC or +01:00') from error
