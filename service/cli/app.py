"""The `tarry` command: registers all commands, and reports every error as one sentence on stderr with its exit code.

0 done, 1 failed, 2 usage, 3 not found, 4 too late, 75 try again: the server or the database is away.
"""

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, cast

from cyclopts import App, CycloptsError, UnknownOptionError

from ... import __version__
from ...store.extras import lacking
from ...store.printable import visible
from .printing import KEYS, NotThere, UsageError, note

app = App(
    name="tarry",
    version=__version__,
    help="Delayed messages with a stream queue behind them, on the MySQL you already run.",
    version_flags=["--version"],
    help_flags=["--help", "-h"],
)
# By name, so that a command loads only what it needs: the client alone would be half of a server's start.
_ROOM = __package__
_FAULTS = 20
"""The most faults of a request that are shown."""
app.command(f"{_ROOM}.serving:serve")
app.command("tarry.service.demo.demo:demo")
app.command(f"{_ROOM}.doctor:doctor")
app.command(f"{_ROOM}.serving:migrate")
app.command(f"{_ROOM}.producing:publish")
app.command(f"{_ROOM}.consuming:consume")
app.command(f"{_ROOM}.producing:cancel")
app.command(f"{_ROOM}.messages:show")
app.command(f"{_ROOM}.messages:find")
app.command(f"{_ROOM}.messages:reschedule")
app.command(f"{_ROOM}.upcoming:upcoming")
app.command(f"{_ROOM}.top:top")
app.command(f"{_ROOM}.timing:timer")
app.command(f"{_ROOM}.pushing:push")
app.command(f"{_ROOM}.scheduling:schedule")
app.command(f"{_ROOM}.consuming:peek")
app.command(f"{_ROOM}.topics:topics")
app.command(f"{_ROOM}.groups:groups")
app.command(f"{_ROOM}.operating:clients")
app.command(f"{_ROOM}.operating:nodes")
app.command(f"{_ROOM}.operating:guards")
app.command(f"{_ROOM}.operating:seek")
app.command(f"{_ROOM}.dead:dead")
app.command(f"{_ROOM}.dead:redrive")
app.command(f"{_ROOM}.operating:erase")
app.command(f"{_ROOM}.pipelining:pipeline", help_flags=[], version_flags=[])
app.command(f"{_ROOM}.keys:keys")
app.command(f"{_ROOM}.completing:completion")
config = App(name="config", help="The settings of the server.")
config.command(f"{_ROOM}.serving:show")
app.command(config)

_OF_IDS = [["redrive"], ["dead", "purge"]]
_ANYWHERE = {"--url": 2, "--json": 1}
"""Flags of all commands that talk to a server, and the number of words that each takes."""
_KEY = "--key"
"""The flag for the key of a message, which some commands have."""

FAILED, USAGE, NOT_FOUND, TOO_LATE, TRY_AGAIN, INTERRUPTED = 1, 2, 3, 4, 75, 130


def _codes() -> Iterator[tuple[type[BaseException], int]]:
    """Exit codes by type of error; the first that fits counts."""
    yield UsageError, USAGE
    yield NotThere, NOT_FOUND
    # Imported only after an error, and one after the other: the module of the raised error is loaded already.
    from ..settings import SettingError

    yield SettingError, USAGE
    from ...store.errors import StoreError
    from ...store.errors import Unavailable as StoreUnavailable
    from ...store.opening import BadDSN

    yield BadDSN, USAGE
    yield StoreUnavailable, TRY_AGAIN
    yield StoreError, FAILED
    from ...client.errors import BadRequest, NotFound, TarryError, TooLate
    from ...client.errors import Unavailable as ServerUnavailable

    yield BadRequest, USAGE
    yield NotFound, NOT_FOUND
    yield TooLate, TOO_LATE
    yield ServerUnavailable, TRY_AGAIN
    yield TarryError, FAILED
    yield OSError, FAILED


def _faults(error: Exception) -> list[str]:
    """The error as lines: one for each fault, if a server names several."""
    told: Any = getattr(error, "errors", None)
    found = [_fault(one) for one in cast("Sequence[Any]", told)] if isinstance(told, list) else []
    if len(found) < 2 or None in found:
        return [str(error)]
    more = [f"and {len(found) - _FAULTS} more"] if len(found) > _FAULTS else []
    return [visible(line) for line in found[:_FAULTS] if line is not None] + more


def _fault(one: Any) -> str | None:
    """A fault on one line; None if it does not have the form of a Tarry server's."""
    if not isinstance(one, dict):
        return None
    said = cast("dict[str, Any]", one)
    place, detail = said.get("pointer", said.get("parameter")), said.get("detail")
    return f"{place or 'the body'}: {detail}" if isinstance(place, str) and isinstance(detail, str) else None


def _load_listed(arguments: Sequence[str]) -> None:
    """Loads the commands that the help of a group lists: a command that is not loaded has no description there."""
    group = app
    for word in arguments:
        if word in group.help_flags:
            break
        if word not in group:
            return
        group = group[word]
    for name in group:
        group[name]


def load_all(group: App) -> None:
    for name in group:
        if not name.startswith("-"):
            load_all(group[name])


def _ids_together(arguments: list[str]) -> list[str]:
    """Joins the values of all `--id` flags into one, for commands that take many: for a list cyclopts would read all of
    them again for each."""
    if not any(arguments[: len(command)] == command for command in _OF_IDS):
        return arguments
    ids, others = list[str](), list[str]()
    words = iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag != "--id":
            others.append(word)
        elif (id_ := value if equals else next(words, None)) is not None:
            ids.append(id_)
        else:
            others.append(word)
    return [*others, f"--id={','.join(ids)}"] if ids else others


def _command_first(arguments: Sequence[str]) -> list[str]:
    """Moves flags of all commands, which may stand before the command or before a group's command, behind it."""
    rest, command, flags = list(arguments), list[str](), list[str]()
    group = app
    while True:
        at = 0
        while at < len(rest) and (words := _ANYWHERE.get(rest[at].partition("=")[0], 0)):
            at += 1 if "=" in rest[at] else words
        if at >= len(rest) or rest[at].startswith("-") or rest[at] not in group:
            return [*command, *flags, *rest] if command else [*rest[at:], *flags, *rest[:at]]
        flags += rest[:at]
        command.append(rest[at])
        group, rest = group[rest[at]], rest[at + 1 :]


def run(arguments: Sequence[str]) -> int:
    try:
        arguments = _ids_together(_command_first(arguments))
        first = arguments[0].partition("=")[0] if arguments else ""
        if first == _KEY:
            raise UsageError(f"{_KEY} stands behind its command, and is a message's; {KEYS}")
        if first in _ANYWHERE:
            raise UsageError(f"{first} is of a command, and there is none: write tarry topics {shlex.join(arguments)}")
        _load_listed(arguments)
        code = app(list(arguments), exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError as error:
        if isinstance(error, UnknownOptionError) and error.token.keyword == _KEY:
            note(f"tarry: {KEYS}")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has closed it. Without this Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if (sentence := lacking("server", error)) is not None:
            note(f"tarry: {sentence}")
            return FAILED
        if (fits := next((code for kind, code in _codes() if isinstance(error, kind)), None)) is not None:
            for line in _faults(error):
                note(f"tarry: {line}")
            return fits
        if sys.flags.dev_mode:
            raise
        note(f"tarry: a fault of its own, {type(error).__name__}: {error}; PYTHONDEVMODE=1 shows where")
        return FAILED
    return code if isinstance(code, int) else 0


def main() -> None:
    """The installed command. SIGTERM ends a command as Ctrl-C does; `serve` handles both itself."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
