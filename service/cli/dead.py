"""The commands `dead list`, `redrive` and `dead purge`, for messages that have exhausted their ladder."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

from attrs import frozen
from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from ...client import DeadLetter
from ...store.printable import visible
from ..http.names import parse_id
from .flags import whole
from .operating import confirm
from .options import DryRun, Group, Topic, Yes
from .printing import UsageError, note
from .rendering import body_text, message_record, time_text
from .server import HERE, Server

Ids = Annotated[
    str | None,
    Parameter(
        name="--id",
        allow_leading_hyphen=True,
        help="This one; may be repeated. - reads them from stdin, one in a line.",
    ),
]
Key = Annotated[str | None, Parameter(help="Those of this key.")]
Tag = Annotated[str | None, Parameter(help="Those of this tag.")]
Reason = Annotated[
    str | None, Parameter(help="Those whose last attempt had this reason; with * at its end, one that begins so.")
]
Since = Annotated[str | None, Parameter(name="--from", help="Those that died then or later: 2030-01-01T09:00:00Z.")]
Until = Annotated[str | None, Parameter(name="--to", help="Those that died before.")]

_IDS = 10_000
"""The most ids in one request."""


@Parameter(name="*")
@frozen(kw_only=True)
class Letters:
    """The flags that say which dead letters are meant."""

    id: Ids = None
    reason: Reason = None
    key: Key = None
    tag: Tag = None
    since: Since = None
    until: Until = None

    @property
    def terms(self) -> dict[str, Any]:
        """What they say, but for the ids, as the client takes it."""
        return {"start": self.since, "end": self.until, "key": self.key, "tag": self.tag, "reason": self.reason}


_ALL = Letters()

dead = App(name="dead", help="List and purge the dead letters of a group; see redrive.")


@dead.command(name="list")
def list_dead(
    topic: Topic,
    /,
    *,
    group: Group,
    key: Key = None,
    reason: Annotated[str | None, Parameter(help="Those whose last attempt's reason has this in it.")] = None,
    since: Since = None,
    until: Until = None,
    max: Annotated[int, whole("At most so many.")] = 100,  # noqa: A002
    server: Server = HERE,
) -> int:
    """List dead letters."""
    if max < 1:
        raise UsageError("--max is 1 or more")
    with server.client() as tarry:
        letters: list[DeadLetter] = []
        for letter in tarry.dead_letters(topic, group, key=key, reason=reason, start=since, end=until):
            if len(letters) == max:
                note(f"there are more: --max shows more than {max}, --from and --to others")
                break
            letters.append(letter)
    records: list[dict[str, Any]] = []
    rows: list[tuple[Any, ...]] = []
    for letter in letters:
        message, died, attempts = letter.message, time_text(letter.dead_at), list(letter.attempts)
        records.append(message_record(message) | {"dead_at": died, "attempts": attempts})
        last = attempts[-1]["reason"] if attempts else None
        rows.append((message.id, died, message.key, len(attempts), last, body_text(message)))
    return server.show(records, ("id", "died", "key", ">attempts", "last reason", "body"), rows)


def redrive(
    topic: Topic,
    /,
    *,
    group: Group,
    letters: Letters = _ALL,
    rate: Annotated[int | None, whole("So many a second at most.")] = None,
    dry_run: DryRun = False,
    server: Server = HERE,
) -> int:
    """Give dead letters of a group back to it.

    They begin at the first attempt. Ctrl-C stops it; letters that were redriven stay so.
    """
    if rate is not None and rate < 1:
        raise UsageError("--rate is 1 or more")
    ids = _read_ids(letters.id)
    with server.client() as tarry, _Count("redriven") as count:
        again = partial(tarry.redrive, topic, group, **letters.terms)
        _in_parts(partial(again, rate=rate, dry_run=dry_run), ids, count)
    return _tell("redriven", count.count, server, letters.reason, dry_run=dry_run)


@dead.command
def purge(
    topic: Topic,
    /,
    *,
    group: Group,
    letters: Letters = _ALL,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """Remove dead letters for good."""
    ids = _read_ids(letters.id)
    with server.client() as tarry, _Count("purged") as count:
        away = partial(tarry.purge, topic, group, **letters.terms)
        if not (dry_run or yes):
            there = _in_parts(partial(away, dry_run=True), ids)
            confirm(f"remove {there} dead letters of group {group} for good", yes=yes)
        _in_parts(partial(away, dry_run=dry_run), ids, count)
    return _tell("purged", count.count, server, letters.reason, dry_run=dry_run)


def _read_ids(named: str | None) -> list[str] | None:
    """The named ids, without duplicates; None if none are named. Raises `UsageError` before anything is done."""
    if named is None:
        return None
    ids = dict[str, None]()
    for one in named.split(","):
        for where, text in _lines() if one == "-" else [("--id", one)]:
            if parse_id(text) is None:
                raise UsageError(f"{where}: {visible(text[:40])!r} is no message's id; nothing was done")
            ids[text] = None
    return list(ids)


def _lines() -> Iterator[tuple[str, str]]:
    """The place and the text of each line of stdin that is not blank."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        if text := line.strip().decode("utf-8", "replace"):
            yield f"line {number} of stdin", text


def _in_parts(
    work: Callable[..., int], ids: Sequence[str] | None, tell: Callable[[int], None] = lambda _count: None
) -> int:
    """Does the work in requests of `_IDS` ids at most, reports progress to `tell`, and returns the total."""
    done = 0
    for part in [None] if ids is None else [ids[begin : begin + _IDS] for begin in range(0, len(ids), _IDS)]:
        done += work(part, on_progress=partial(_told, tell, done))
    tell(done)
    return done


def _told(tell: Callable[[int], None], before: int, count: int) -> None:
    tell(before + count)


class _Count:
    """Shows progress on a terminal, and prints the count if the work is interrupted or fails."""

    def __init__(self, done: str) -> None:
        self.count = 0
        self._done = done
        console = Console(stderr=True)
        columns = (TextColumn("{task.completed}"), TextColumn(done), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._progress.add_task(done, total=None)

    def __call__(self, count: int) -> None:
        self.count = count
        if not self._progress.live.is_started:
            self._progress.start()
        self._progress.update(self._task, completed=count)

    def __enter__(self) -> "_Count":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._progress.stop()
        if kind is not None and self.count:
            note(f"{self.count} {self._done} before it stopped")


def _tell(done: str, count: int, server: Server, reason: str | None, *, dry_run: bool) -> int:
    if not count:
        whole = (
            "" if reason is None or reason.endswith("*") else "; --reason is the whole reason, or its beginning and *"
        )
        note(f"no dead letter fits{whole}")
    head = f">{'would be ' if dry_run else ''}{done}"
    return server.show([{done: count, "dry_run": dry_run}], (head,), [(count,)])
