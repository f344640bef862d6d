"""`tarry pipeline import`: files of rows become messages."""

from typing import Literal

from attrs import frozen

from ...client.durations import milliseconds
from ..errors import FAILED
from ..sending.column_mapping import ColumnMapping
from .options import AsJson, Flat, Master, check_rate, store_of
from .summary import show_summary


@frozen(kw_only=True)
class Target:
    """The target of an import, and how imported rows are recognised."""

    name: str | None = None
    """The name of the import, by default that of its files: rows that it brought before are passed over."""
    dsn: str | None = None
    """MySQL or MariaDB: mysql://USER:PASSWORD@HOST/DATABASE. [TARRY_DSN]"""
    server: str | None = None
    """http://host:port, in place of a DSN."""
    rate: float | None = None
    """Rows a second at the most, of all tasks together."""
    window: str = "7d"
    """How long rows are remembered."""
    errors: str | None = None
    """A folder or URL: rows that cannot be messages go there, with reasons."""

    def check(self) -> None:
        """Raises ValueError."""
        if self.server is not None and self.dsn is not None:
            raise ValueError("--dsn and --server: leave one of them out")
        if self.server is None and not self.store.startswith("mysql://"):
            raise ValueError(
                f"{self.store.partition(':')[0]}: only its server may write to this store; start it and say"
                " --server http://..."
            )
        check_rate(self.rate, "rows")

    @property
    def store(self) -> str:
        """The DSN; empty if the messages go to a server."""
        return "" if self.server is not None else store_of(self.dsn)

    @property
    def remembered(self) -> int:
        """The window in milliseconds. Raises ValueError."""
        try:
            return milliseconds(self.window)
        except ValueError as error:
            raise ValueError(f"--window: {error}") from error


_MAPPING, _TARGET = ColumnMapping(), Target()


def import_(
    *files: str,
    topic: str,
    mapping: Flat[ColumnMapping] = _MAPPING,
    format: Literal["parquet", "csv", "ndjson"] | None = None,  # noqa: A002 - the option's name
    multi_line: bool = False,
    target: Flat[Target] = _TARGET,
    strict: bool = False,
    dry_run: bool = False,
    as_json: AsJson = False,
    master: Master = None,
) -> int:
    """Imports Parquet, CSV or NDJSON as messages, each row once, however often it is run within `--window`.

    Into MySQL with `--dsn`, partition by partition; into any store with `--server`, over HTTP.

    Parameters
    ----------
    files
        Paths, folders, patterns or URLs, as Spark takes them.
    topic
        It must exist.
    format
        When the names of the files do not tell.
    multi_line
        Fields of the CSV hold line breaks; a file is then read by one task.
    strict
        Exit with 1 when any row was bad.
    dry_run
        Check and count, and write no message.
    """
    from .. import session

    session.check()
    from ..sending import importing
    from ..sending.input_files import read_rows

    if not files:
        raise ValueError("name a file at least")
    target.check()
    mapping.check()
    remembered = target.remembered
    importing.check_topic(topic, dsn=target.store, server=target.server or "")
    spark = session.open_session("import", master)
    job = importing.Job(
        rows=read_rows(spark, files, format, multi_line=multi_line),
        mapping=mapping,
        topic=topic,
        name=importing.name_of(files) if target.name is None else importing.checked_name(target.name),
        dsn=target.store,
        server=target.server or "",
        rate=target.rate,
        window=remembered,
        errors=target.errors,
        dry_run=dry_run,
    )
    summary = importing.run(spark, job)
    show_summary(summary.figures(), as_json=as_json)
    return FAILED if (strict and summary.bad) or (summary.read and summary.bad == summary.read) else 0
