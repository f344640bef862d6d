"""`tarry pipeline archive`: from the store to the lake, once or for good, and the lake's upkeep."""

import sys
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from attrs import asdict
from cyclopts import Parameter

from ...store.printable import json_text, print_table
from ...store.whole_number import whole_number
from .options import AsJson, Dsn, LakeUrl, Master, check_rate, store_of

if TYPE_CHECKING:
    from ..lake.archive import Archiver


def archive(
    *,
    dsn: Dsn = None,
    lake: LakeUrl = None,
    master: Master = None,
    once: Annotated[bool, Parameter(help="Archive what there is, and end. The default.")] = False,
    watch: Annotated[bool, Parameter(help="Go on until SIGTERM or Ctrl-C.")] = False,
    every: Annotated[int, Parameter(help="Seconds between two looks of --watch.", converter=whole_number)] = 10,
    rows: Annotated[int, Parameter(help="Rows to a commit, about.", converter=whole_number)] = 1_000_000,
    rate: Annotated[float | None, Parameter(help="Messages and deliveries a second at the most.")] = None,
    new_lake: Annotated[bool, Parameter(help="Go on in another lake: an empty one, or one left before.")] = False,
    compact: Annotated[bool, Parameter(help="Instead: put the lake's small files together.")] = False,
    vacuum: Annotated[
        int | None, Parameter(help="Instead: remove files unlisted for so many hours.", converter=whole_number)
    ] = None,
    off: Annotated[bool, Parameter(help="Instead: retention no longer waits for the archive.")] = False,
    yes: Annotated[bool, Parameter(help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Archive messages, deliveries, dead letters, cancelled messages and fires to a Delta lake; retention waits for it.

    Exit code 75: the store is away, or another archiver is at work. Nothing is lost, and the next run goes on.
    """
    dsn = store_of(dsn)
    if once and watch:
        raise ValueError("--once or --watch, not both")
    if rows < 1 or every < 1:
        raise ValueError("--rows and --every are 1 or more")
    check_rate(rate, "rows")
    instead = compact or vacuum is not None
    if (off and instead) or ((off or instead) and (once or watch or new_lake)):
        raise ValueError("--off, or --compact and --vacuum, come in place of archiving: leave the others out")
    if off:
        return _switch_off(dsn, yes=yes, as_json=as_json)
    if lake is None:
        raise ValueError("--lake is missing: name a folder or a URL")
    if instead:
        return _keep_up(dsn, lake, compact=compact, vacuum=vacuum, yes=yes, as_json=as_json)
    from .. import session

    session.check_installed()  # before anything that loads PySpark
    from ..lake import watching
    from ..lake.archive import Archiver
    from ..lake.archiver_lease import ArchiverLease
    from ..lake.lake import Lake

    over = threading.Event()
    with ArchiverLease(dsn) as lease, session.Later("archive", master) as spark:
        archiver = Archiver(spark, dsn, Lake(lake), lease, rows, rate=rate)
        if sys.stderr.isatty():
            archiver.progress = partial(_show, archiver)
        archiver.begin(new_lake=new_lake)
        if watch:
            with watching.until_told(over):
                watching.watch(archiver, every, over)
        else:
            archiver.run()
    done: list[dict[str, object]] = [{"table": table, "rows": many} for table, many in archiver.rows.items() if many]
    if archiver.erased:
        done.append({"table": "erased", "rows": sum(archiver.erased.values())})
    _print(as_json, done)
    return 0


def erase(
    *,
    dsn: Dsn = None,
    lake: LakeUrl = None,
    keep: Annotated[
        int, Parameter(help="Leave files of before that were in use in the last so many hours.", converter=whole_number)
    ] = 0,
    yes: Annotated[bool, Parameter(help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Erase in the lake what `tarry erase` has erased in the store, and remove the old files.

    Exit code 75: the store is away, or an archiver is at work. A running archiver erases by itself, but removes no
    files.
    """
    dsn = store_of(dsn)
    if lake is None:
        raise ValueError("--lake is missing: name a folder or a URL")
    if keep < 0:
        raise ValueError("--keep: hours, 0 or more")
    from .. import session

    session.check()
    from ..lake import erasures
    from ..lake.archiver_lease import ArchiverLease
    from ..lake.lake import Lake
    from ..lake.upkeep import LEAST_HOURS, keep_up

    if keep < LEAST_HOURS:
        _confirm("remove files that a job may be reading, which then fails and is to be run again", yes=yes)
    with ArchiverLease(dsn) as lease:
        Lake(lake).tables(alone=True)
        lease.check()
        erased = erasures.apply(dsn, Lake(lake))
        kept = keep_up(Lake(lake), vacuum=keep)
    _print(as_json, [{"table": one.table, "erased": erased.get(one.table, 0), "removed": one.removed} for one in kept])
    return 0


def _show(archiver: "Archiver", table: str, _rows: int) -> None:
    """Writes progress into a line of a terminal: rows done, of those that there were at the beginning."""
    done = sum(archiver.rows.values())
    sys.stderr.write(f"\rarchived {done:,} of about {max(archiver.planned, done):,} rows, {table} last\x1b[K")
    sys.stderr.flush()


def _keep_up(dsn: str, lake: str, *, compact: bool, vacuum: int | None, yes: bool, as_json: bool) -> int:
    from .. import session

    session.check()
    from ..lake.archiver_lease import ArchiverLease
    from ..lake.lake import Lake
    from ..lake.upkeep import LEAST_HOURS, keep_up

    if vacuum is not None and vacuum < 0:
        raise ValueError("--vacuum: hours, 0 or more")
    if vacuum is not None and vacuum < LEAST_HOURS:
        _confirm(f"remove files that a reader of the last {LEAST_HOURS} hours may be reading", yes=yes)
    with ArchiverLease(dsn):  # the files of an archiver at work are in no snapshot yet
        done = keep_up(Lake(lake), compact=compact, vacuum=vacuum)
    _print(as_json, [asdict(one) for one in done])
    return 0


def _switch_off(dsn: str, *, yes: bool, as_json: bool) -> int:
    from ..lake.archiver_lease import switch_off

    _confirm("let retention delete what is not archived", yes=yes)
    _print(as_json, [{"archiving": "off", "was_on": switch_off(dsn)}])
    return 0


def _confirm(what: str, *, yes: bool) -> None:
    """Asks on a terminal; elsewhere --yes is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ValueError(f"say --yes to {what}")
    sys.stderr.write(f"tarry pipeline: {what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ValueError("nothing was done")


def _print(as_json: bool, rows: Sequence[dict[str, object]]) -> None:
    if as_json:
        sys.stdout.write("".join(f"{json_text(row)}\n" for row in rows))
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        sys.stdout.write("nothing new\n")
    sys.stdout.flush()
