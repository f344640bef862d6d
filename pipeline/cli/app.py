"""`tarry pipeline`: the commands, and every error as one sentence on stderr with its exit code.

0 done, 1 failed or not clean, 2 usage, 3 not found, 75 try again: the store is away, or another archiver is at work.
"""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from rich.console import Console

from ... import __version__
from ..errors import InUse, NotFound, PipelineError, StoreAway

app = App(
    name="tarry pipeline",
    version=__version__,
    help="Archive, report, audit, trace, import and replay, on Spark.",
    version_flags=["--version"],
    help_flags=["--help", "-h"],
)

FAILED, USAGE, NOT_FOUND, TRY_AGAIN, INTERRUPTED = 1, 2, 3, 75, 130

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (InUse, TRY_AGAIN),
    (StoreAway, TRY_AGAIN),
    (NotFound, NOT_FOUND),
    (PipelineError, FAILED),
    (ValueError, USAGE),
)
"""The first that fits."""


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
        print(f"tarry pipeline: {error}", file=sys.stderr)
        return next(code for kind, code in _CODES if isinstance(error, kind))
    return code if isinstance(code, int) else 0


def main() -> None:
    sys.exit(run(sys.argv[1:]))


# Each command registers itself with `app`.
from . import importing as importing  # noqa: E402
from . import replaying as replaying  # noqa: E402
