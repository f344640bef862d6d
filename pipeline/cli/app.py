"""`tarry pipeline`: the commands, a Ctrl-C, and every error as one sentence on stderr with its exit code."""

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from ... import __version__
from ...store.extras import lacking
from ...store.printable import visible
from ..errors import PipelineError, SetUpError
from ..spark_errors import translate
from .archiving import archive, erase
from .auditing import audit
from .importing import import_
from .replaying import replay
from .reporting import report
from .tracing import trace

app = App(
    name="tarry pipeline",
    version=__version__,
    help="Archive, erase, report, audit, trace, import and replay, on Spark.",
    version_flags=["--version"],
    help_flags=["--help", "-h"],
    default_parameter=Parameter(negative=()),
)

app.command(archive)
app.command(erase)
app.command(report)
app.command(audit)
app.command(trace)
app.command(import_, name="import")
app.command(replay)

_USAGE, _INTERRUPTED = 2, 130
"""Exit codes beside those of the pipeline's errors."""

_OWN = "\n\t"
"""Control characters of our own sentences; all others may come from a user's key."""

_GIVES_WAY = 10
"""Steps of niceness."""
_CANCEL_EVERY = 0.5
"""Seconds between two cancels: a command has several jobs, and the next one is not to begin either."""


class _Interruption:
    """The handler of SIGINT. The second Ctrl-C, and one without Spark, is a KeyboardInterrupt.

    PySpark's own handler calls into Java in the midst of another call, and says so at length; a KeyboardInterrupt there
    leaves a connection with half an answer. So the jobs are cancelled from another thread, and the call that waits for
    them ends by itself.
    """

    def __init__(self) -> None:
        self.happened = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        pyspark: Any = sys.modules.get("pyspark")  # not imported for this; it has no public way to its context
        context = None if pyspark is None else pyspark.SparkContext._active_spark_context
        if self.happened or context is None:
            raise KeyboardInterrupt
        self.happened = True
        threading.Thread(target=_cancel, args=(context,), name="tarry-interruption", daemon=True).start()


def _cancel(context: Any) -> None:
    while True:
        with suppress(Exception):
            context.cancelAllJobs()
        time.sleep(_CANCEL_EVERY)


_interruption = _Interruption()


def run(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    console = Console(stderr=True)
    try:
        code = app(
            list(arguments), exit_on_error=False, print_error=True, error_console=console, result_action="return_value"
        )
    except CycloptsError:
        return _USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        if (sentence := lacking("spark", error)) is not None:
            return _say(SetUpError(sentence))
        if _interruption.happened:
            print("tarry pipeline: interrupted", file=sys.stderr)
            return _INTERRUPTED
        known = error if isinstance(error, ValueError) else translate(error)
        if known is None:  # out of the depths of Spark
            raise
        return _say(known)
    return code if isinstance(code, int) else 0


def _say(error: PipelineError | ValueError) -> int:
    print(f"tarry pipeline: {visible(str(error), keep=_OWN)}", file=sys.stderr)
    return error.exit_code if isinstance(error, PipelineError) else _USAGE


def main() -> None:
    """The command. It runs with low priority, as do Spark and its workers on this machine, so that servers go first.

    Not in the idle class (SCHED_IDLE): there publishers felt less of an archive, but on a busy machine it made no
    progress.
    """
    os.nice(_GIVES_WAY)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background there is no Ctrl-C
        signal.signal(signal.SIGINT, _interruption.handle)
    sys.exit(run(sys.argv[1:]))
