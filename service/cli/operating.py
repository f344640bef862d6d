"""`groups`, `seek`, `clients`, `nodes`, and `dead list|redrive|purge`: what an operator sees, and does."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from ...client import DeadLetter, Tarry
from ...store.printable import visible
from ..durations import parse_time
from .printing import UsageError, note
from .rendering import body_text, message_record, time_text
from .server import HERE, Server

Topic = Annotated[str, Parameter(help="The topic.")]
Group = Annotated[str, Parameter(help="The consumer group.")]
DryRun = Annotated[bool, Parameter(negative=(), help="Tell what it would do, and do nothing.")]
Yes = Annotated[bool, Parameter(negative=(), help="Do not ask.")]
Ids = Annotated[list[str] | None, Parameter(name="--id", help="This one; may be repeated.", negative=())]
Since = Annotated[str | None, Parameter(name="--from", help="Those that died then or later: 2030-01-01T09:00:00Z.")]
Until = Annotated[str | None, Parameter(name="--to", help="Those that died before.")]


def groups(
    topic: Topic,
    /,
    *,
    delete: Annotated[str | None, Parameter(help="Remove this group for good.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """List the consumer groups of a topic with their backlog, retries and dead letters; or remove one."""
    if delete is not None:
        with server.client() as tarry:
            return _delete(tarry, topic, delete, server, dry_run=dry_run, yes=yes)
    if dry_run or yes:
        raise UsageError("--dry-run and --yes go with --delete")
    with server.client() as tarry:
        details = [tarry.group(topic, one["group"]) for one in tarry.topic(topic)["groups"]]
    rows: list[tuple[Any, ...]] = []
    for one in details:
        counts = (one["backlog"], one["claimed"], sum(one["retries"]), one["dead_letters"], one["acked"])
        rows.append((one["group"], *counts, len(one["clients"])))
    columns = ("group", ">backlog", ">claimed", ">retrying", ">dead letters", ">acked", ">clients")
    return server.show(details, columns, rows)


def _delete(tarry: Tarry, topic: str, group: str, server: Server, *, dry_run: bool, yes: bool) -> int:
    state = tarry.group(topic, group)
    held = {name: state[name] for name in ("backlog", "claimed", "dead_letters")}
    held["retrying"] = sum(state["retries"])
    told = f"backlog {held['backlog']}, claimed {held['claimed']}, retrying {held['retrying']}"
    if not dry_run:
        confirm(
            f"remove group {group} of topic {topic} for good ({told}, dead letters {held['dead_letters']})", yes=yes
        )
        tarry.delete_group(topic, group)
    columns = ("group", ">backlog", ">claimed", ">retrying", ">dead letters")
    row = (group, held["backlog"], held["claimed"], held["retrying"], held["dead_letters"])
    remark = "nothing was removed: --dry-run" if dry_run else "removed"
    return server.show([{"topic": topic, "group": group, "removed": not dry_run} | held], columns, [row], remark)


def seek(
    topic: Topic,
    /,
    *,
    group: Group,
    to: Annotated[str, Parameter(help="earliest, latest, a time, or an offset.")],
    queue: Annotated[int | None, Parameter(help="Of an offset or a time: this queue only.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """Move a consumer group to another position. Its open claims are closed first; other groups feel nothing."""
    if queue is not None and to in ("earliest", "latest"):
        raise UsageError(f"--queue goes with an offset or a time; --to {to} moves all queues")
    place = _place(to)
    with server.client() as tarry:
        before = {q["queue"]: q["offset"] for q in tarry.group(topic, group)["queues"]}
        if not dry_run:
            confirm(f"move group {group} of topic {topic} to {to}, and close its open claims", yes=yes)
        after = tarry.seek(topic, group, place, queue=queue, dry_run=dry_run)
    records = [
        {"queue": number, "offset": offset, "before": before.get(number), "dry_run": dry_run}
        for number, offset in after.items()
    ]
    rows = [(r["queue"], r["before"], r["offset"]) for r in records]
    remark = "nothing was moved: --dry-run" if dry_run else ""
    return server.show(records, (">queue", ">before", ">after"), rows, remark)


def _place(to: str) -> str | int:
    if to.isascii() and to.isdecimal():
        return int(to)
    if to not in ("earliest", "latest"):
        try:
            parse_time(to)
        except ValueError as error:
            raise UsageError(f"--to takes earliest, latest, an offset or a time; {error}") from None
    return to


_ALIVE = {True: "yes", False: "no", None: ""}


def nodes(*, server: Server = HERE) -> int:
    """List the servers that work on the same database, and which has the duties (*): clearing up and the like."""
    with server.client() as tarry:
        found = tarry.nodes()
    rows = [
        (
            *(one["slot"], one["node"], "*" if one["duties"] else "", _ALIVE[one["alive"]], one["version"]),
            *(one["level"], one["started_at"], one["renewed_at"], one["timers"], _shards(one["shards"])),
            *(one["hand_behind"], one["url"]),
        )
        for one in found
    ]
    columns = (">slot", "node", "duties", "alive", "version", ">level", "started", "renewed", ">timers", "shards")
    return server.show(found, (*columns, ">behind ms", "url"), rows)


def _shards(shards: Sequence[int]) -> str:
    """`0-7 12 14-15`."""
    runs: list[list[int]] = []
    for shard in shards:
        if runs and runs[-1][-1] == shard - 1:
            runs[-1].append(shard)
        else:
            runs.append([shard])
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def clients(*, server: Server = HERE) -> int:
    """List the clients, whether they live, and the queues they hold claims of (how many) or own (*)."""
    with server.client() as tarry:
        found = list(tarry.clients())
    rows: list[tuple[Any, ...]] = []
    for one in found:
        claims = sum(held["claims"] for held in one["holds"])
        alive = _ALIVE[one["alive"]]
        rows.append((one["client"], one["registered_at"], one["renewed_at"], alive, claims, _holds(one["holds"])))
    return server.show(found, ("client", "registered", "renewed", "alive", ">claims", "holds"), rows)


def _holds(holds: Iterable[Mapping[str, Any]]) -> str:
    """`payments/ledger: 0* (1), 2*`, a group after the other."""
    groups: dict[str, list[str]] = {}
    for held in holds:
        queue = f"{held['queue']}{'*' if held['owner'] else ''}"
        if held["claims"]:
            queue += f" ({held['claims']})"
        groups.setdefault(f"{held['topic']}/{held['group']}", []).append(queue)
    return "; ".join(f"{group}: {', '.join(queues)}" for group, queues in groups.items())


dead = App(name="dead", help="The dead letters of a consumer group.")


@dead.command(name="list")
def list_dead(
    topic: Topic,
    /,
    *,
    group: Group,
    key: Annotated[str | None, Parameter(help="Those of this key.")] = None,
    reason: Annotated[str | None, Parameter(help="Those whose last attempt's reason has this in it.")] = None,
    since: Since = None,
    until: Until = None,
    max: Annotated[int, Parameter(help="At most so many.")] = 100,  # noqa: A002 - the contract's word
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


@dead.command
def redrive(
    topic: Topic,
    /,
    *,
    group: Group,
    id: Ids = None,  # noqa: A002 - the contract's word
    since: Since = None,
    until: Until = None,
    rate: Annotated[int | None, Parameter(help="So many a second at most.")] = None,
    dry_run: DryRun = False,
    server: Server = HERE,
) -> int:
    """Give dead letters back to their group, from the first attempt on. Ctrl-C stops it; what is done stays done."""
    if rate is not None and rate < 1:
        raise UsageError("--rate is 1 or more")
    with server.client() as tarry, _Count("redriven") as count:
        count(tarry.redrive(topic, group, id, start=since, end=until, rate=rate, dry_run=dry_run, on_progress=count))
    return _tell("redriven", count.count, server, dry_run=dry_run)


@dead.command
def purge(
    topic: Topic,
    /,
    *,
    group: Group,
    id: Ids = None,  # noqa: A002 - the contract's word
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """Remove dead letters for good."""
    with server.client() as tarry, _Count("purged") as count:
        if not dry_run:
            there = tarry.purge(topic, group, id, start=since, end=until, dry_run=True)
            confirm(f"remove {there} dead letters of group {group} for good", yes=yes)
        count(tarry.purge(topic, group, id, start=since, end=until, dry_run=dry_run, on_progress=count))
    return _tell("purged", count.count, server, dry_run=dry_run)


class _Count:
    """How far it is: told on a terminal while it goes on, and at the end however that comes."""

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


def _tell(done: str, count: int, server: Server, *, dry_run: bool) -> int:
    head = f">{'would be ' if dry_run else ''}{done}"
    return server.show([{done: count, "dry_run": dry_run}], (head,), [(count,)])


def confirm(what: str, *, yes: bool) -> None:
    """Asks on a terminal; elsewhere --yes is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"say --yes to {what}; --dry-run only tells what would be done")
    sys.stderr.write(visible(f"tarry: {what}? [y/N] "))
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was done")
