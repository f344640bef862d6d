"""`tarry pipeline report`."""

import sys

from .options import DsnOrLake, LakeUrl, Master, Since, Topics, Until, store_beside, window


def report(
    *,
    output: str,
    dsn: DsnOrLake = None,
    lake: LakeUrl = None,
    since: Since = None,
    until: Until = None,
    topic: Topics = None,
    title: str = "What Tarry did",
    master: Master = None,
) -> int:
    """Make a page of charts and tables out of the history, and its figures as Parquet and JSON.

    Parameters
    ----------
    output
        A folder or URL for index.html and figures/.
    title
        The heading of the page.
    """
    begin, end = window(since, until)
    dsn = store_beside(dsn, lake)
    from ..session import check, open_session

    check()
    from .. import history
    from ..report.job import known_of, make_report, wanted
    from ..report.output import check as check_folder
    from ..report.output import open_folder

    many = history.check(dsn, lake, topic)
    known = known_of(dsn, lake)
    check_folder(output)
    spark = open_session("report", master, many)
    first, last = wanted(begin, end, known.now)
    with open_folder(spark, output) as folder:
        tables = history.open_tables(spark, dsn, lake, topics=topic, since=first, until=last, bodies=False)
        made = make_report(tables, known, since=begin, until=end, title=title, topics=topic or ())
        print(made.write(folder))
    if not made.messages:
        print("tarry pipeline: there is no message in this window", file=sys.stderr)
    return 0
