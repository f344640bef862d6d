"""`tarry pipeline report`."""

import sys
from importlib import import_module
from typing import Annotated, Any

from cyclopts import Parameter

from .times import parse_time


def report(
    *,
    output: str,
    dsn: Annotated[str | None, Parameter(env_var="TARRY_DSN")] = None,
    lake: str | None = None,
    since: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    topic: Annotated[list[str] | None, Parameter(negative=())] = None,
    title: str = "What Tarry did",
    master: str | None = None,
) -> int:
    """Make a page of charts and tables out of the history, and its figures as Parquet and JSON.

    Parameters
    ----------
    output
        A folder or URL for index.html and figures/.
    dsn
        The store; sqlite:///tarry.db when there is no --lake either.
    lake
        The lake, a folder or URL.
    since
        From this time on; RFC 3339. From the first message on unless said.
    until
        Up to this time, which is not of it. Until now unless said.
    topic
        Only this topic; may be repeated.
    title
        The heading of the page.
    master
        Spark's master, such as local[2]; under spark-submit it is the cluster's.
    """
    begin = None if since is None else parse_time(since, "--from")
    end = None if until is None else parse_time(until, "--to")
    if begin is not None and end is not None and begin >= end:
        raise ValueError("--from has to be before --to")
    if dsn is None and lake is None:
        dsn = "sqlite:///tarry.db"
    from ..session import check, open_session

    check()
    from ..report.job import Known, make_report, wanted
    from ..tasks import suit_this_machine

    history: Any = import_module("tarry.pipeline.history")
    spark = open_session("report", master)
    suit_this_machine(spark)
    rows = wanted(begin, end)
    tables = history.open_tables(spark, dsn, lake, topics=topic, since=rows.since, until=rows.until)
    known = Known(store=dsn is not None, lake=lake is not None)
    made = make_report(tables, known, since=begin, until=end, title=title, topics=topic or ())
    print(made.write(spark, output))
    if not made.messages:
        print("tarry pipeline: there is no message in this window", file=sys.stderr)
    return 0
