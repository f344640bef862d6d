"""`tarry pipeline`: the commands, and every error as one sentence on stderr with its exit code."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from cyclopts import App, CycloptsError
from rich.console import Console

from ... import __version__
from ..errors import InUse, NotFound, PipelineError, StoreAway
from ..troubles import translate
from .archiving import archive
from .auditing import audit
from .codes import FAILED, INTERRUPTED, NOT_FOUND, TRY_AGAIN, USAGE
from .importing import import_
from .replaying import replay
from .reporting import report
from .tracing import trace

app = App(
    name="tarry pipeline",
    version=__version__,
    help="Archive, report, audit, trace, import and replay, on Spark.",
    version_flags=["--version"],
    help_flags=["--help", "-h"],
)

app.command(archive)
app.command(report)
app.command(audit)
app.command(trace)
app.command(import_, name="import")
app.command(replay)

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (InUse, TRY_AGAIN),
    (StoreAway, TRY_AGAIN),
    (NotFound, NOT_FOUND),
    (PipelineError, FAILED),
    (ValueError, USAGE),
)
"""The first that fits."""

_GIVES_WAY = 10
"""Steps of niceness."""
_IN_THE_BACKGROUND = "archive"
"""The job that runs for good, and that nobody waits for."""


def run(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    console = Console(stderr=True)
    try:
        code = app(
            list(arguments),
            exit_on_error=False,
            print_error=True,
            error_console=console,
            result_action="return_value",
        )
    except CycloptsError:
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except tuple(kind for kind, _ in _CODES) as error:
        return _told(error)
    except Exception as error:
        told = translate(error)  # out of the depths of Spark
        if told is None:
            raise
        return _told(told)
    return code if isinstance(code, int) else 0


def _told(error: BaseException) -> int:
    print(f"tarry pipeline: {error}", file=sys.stderr)
    return next(code for kind, code in _CODES if isinstance(error, kind))


def main() -> None:
    """The command. It, Spark and its workers on this machine give way to whoever serves there.

    The archive takes only what nobody else wants: a nicer process is waited for until its slice of time is over, one of
    the idle class is put aside at once.
    """
    with suppress(OSError):  # a sandbox may forbid it, and the job is none the worse
        os.nice(_GIVES_WAY)
        if sys.argv[1:2] == [_IN_THE_BACKGROUND] and sys.platform == "linux":
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    sys.exit(run(sys.argv[1:]))
