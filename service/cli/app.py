"""`tarry`: the commands, and every error as one sentence on stderr with its exit code.

0 done, 1 failed, 2 usage, 3 not found, 4 too late, 75 try again: the server or the database is away.
"""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from cyclopts import App, CycloptsError
from rich.console import Console

from ... import __version__
from ...client.errors import BadRequest, NotFound, TarryError, TooLate
from ...client.errors import Unavailable as ServerUnavailable
from ...store.errors import StoreError
from ...store.errors import Unavailable as StoreUnavailable
from ...store.opening import BadDSN
from ..settings import SettingError
from . import checkup, consuming, demo, looking, operating, pipelining, producing, serving
from .printing import note
from .usage import UsageError

app = App(
    name="tarry",
    version=__version__,
    help="Delayed messages and schedules with a stream queue behind them, on the MySQL you already run.",
    version_flags=["--version"],
    help_flags=["--help", "-h"],
)
app.command(serving.serve)
app.command(demo.demo)
app.command(checkup.doctor)
app.command(serving.migrate)
app.command(producing.publish)
app.command(consuming.consume)
app.command(producing.cancel)
app.command(consuming.peek)
app.command(consuming.topics)
app.command(operating.groups)
app.command(looking.clients)
app.command(operating.seek)
app.command(operating.dead)
app.command(pipelining.pipeline, help_flags=[], version_flags=[])
config = App(name="config", help="The settings of the server.")
config.command(serving.show)
app.command(config)

FAILED, USAGE, NOT_FOUND, TOO_LATE, TRY_AGAIN, INTERRUPTED = 1, 2, 3, 4, 75, 130

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (UsageError, USAGE),
    (SettingError, USAGE),
    (BadDSN, USAGE),
    (BadRequest, USAGE),
    (NotFound, NOT_FOUND),
    (TooLate, TOO_LATE),
    (ServerUnavailable, TRY_AGAIN),
    (StoreUnavailable, TRY_AGAIN),
    (TarryError, FAILED),
    (StoreError, FAILED),
    (OSError, FAILED),
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
    except BrokenPipeError:
        # Whoever read us has enough. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except tuple(kind for kind, _ in _CODES) as error:
        note(f"tarry: {error}")
        return next(code for kind, code in _CODES if isinstance(error, kind))
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        note(f"tarry: a fault of its own, {type(error).__name__}: {error}; PYTHONDEVMODE=1 shows where")
        return FAILED
    return code if isinstance(code, int) else 0


def main() -> None:
    """The installed command. SIGTERM ends a command as Ctrl-C does; `serve` has its own way with both."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
