"""`tarry pipeline`: the commands, and every error as one sentence on stderr with its exit code."""

import os
import signal
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from ... import __version__
from ...store.extras import lacking
from ...store.printable import visible
from ..errors import InUse, NotFound, PipelineError, SetUpError, StoreAway
from ..spark_errors import translate
from .archiving import archive
from .auditing import audit
from .codes import FAILED, INTERRUPTED, NOT_FOUND, TRY_AGAIN, USAGE
from .importing import import_
from .interruption import Interruption
from .replaying import replay
from .reporting import report
from .tracing import trace

app = App(
    name="tarry pipeline",
    version=__version__,
    help="Archive, report, audit, trace, import and replay, on Spark.",
    version_flags=["--version"],
    help_flags=["--help", "-h"],
    default_parameter=Parameter(negative=()),
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

_interruption = Interruption()

_OWN = "\n\t"
"""What our own sentences are made of; the rest may be somebody's key."""

_GIVES_WAY = 10
"""Steps of niceness."""


def run(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    console = Console(stderr=True)
    try:
        code = app(
            list(arguments), exit_on_error=False, print_error=True, error_console=console, result_action="return_value"
        )
    except CycloptsError:
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if (sentence := lacking("spark", error)) is not None:
            return _say(SetUpError(sentence))
        if _interruption.happened:
            print("tarry pipeline: interrupted", file=sys.stderr)
            return INTERRUPTED
        known = error if isinstance(error, tuple(kind for kind, _ in _CODES)) else translate(error)
        if known is None:  # out of the depths of Spark
            raise
        return _say(known)
    return code if isinstance(code, int) else 0


def _say(error: BaseException) -> int:
    print(f"tarry pipeline: {visible(str(error), keep=_OWN)}", file=sys.stderr)
    return next(code for kind, code in _CODES if isinstance(error, kind))


def main() -> None:
    """The command. It, Spark and its workers on this machine give way to whoever serves there.

    Not wholly: in the idle class (SCHED_IDLE) publishers felt less of an archive, and on a busy machine it came to
    nothing.
    """
    os.nice(_GIVES_WAY)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background there is no Ctrl-C
        signal.signal(signal.SIGINT, _interruption.handle)
    sys.exit(run(sys.argv[1:]))
