"""The commands `groups` and `groups show|put|rm`, which list, show, create, change, pause and remove groups."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from ...client import Forbidden, Tarry
from .operating import confirm
from .options import DryRun, Topic, Yes
from .printing import UsageError
from .putting import COLUMNS, Jitter, Ladder, Limit, group_rows, limit, rungs, told_of_flags
from .server import HERE, Server
from .topics import what_was_done

groups = App(name="groups", help="List groups; show, make, change, pause or remove one.")

Name = Annotated[str, Parameter(help="The consumer group.")]


@groups.default
def list_(
    topic: Topic | None = None,
    /,
    *,
    sort: Annotated[
        Literal["name", "backlog", "dead_letters"], Parameter(help="By name, or those first that have most of it.")
    ] = "name",
    delete: Annotated[str | None, Parameter(help="Remove this group for good.")] = None,
    pause: Annotated[str | None, Parameter(help="Hand out nothing to this group until it is resumed.")] = None,
    resume: Annotated[str | None, Parameter(help="Go on handing out to this group.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """List groups; show, make, change, pause or remove one.

    It lists the groups of one topic or of all, with their backlog, retries and dead letters.
    """
    if sum(name is not None for name in (delete, pause, resume)) > 1:
        raise UsageError("one of --delete, --pause and --resume")
    if topic is None:
        if delete is not None or pause is not None or resume is not None or dry_run or yes:
            raise UsageError("say of which topic the group is: tarry groups TOPIC")
        return _of_all(sort, server)
    if delete is not None:
        with server.client() as tarry:
            return _delete(tarry, topic, delete, server, dry_run=dry_run, yes=yes)
    if dry_run or yes:
        raise UsageError("--dry-run and --yes go with --delete")
    with server.client() as tarry:
        if pause is not None:
            return _paused(tarry.pause(topic, pause), server)
        if resume is not None:
            return _paused(tarry.resume(topic, resume), server)
        details = [tarry.group(topic, one["group"]) for one in tarry.topic(topic)["groups"]]
    if sort != "name":
        details.sort(key=lambda one: -one[sort])
    rows: list[tuple[Any, ...]] = []
    for one in details:
        counts = (one["backlog"], one["claimed"], sum(one["retries"]), one["dead_letters"], one["acked"])
        rows.append((one["group"], *counts, len(one["clients"]), _PAUSED[one["paused"]]))
    columns = ("group", ">backlog", ">claimed", ">retrying", ">dead letters", ">acked", ">clients", "paused")
    return server.show(details, columns, rows)


def _of_all(sort: Literal["name", "backlog", "dead_letters"], server: Server) -> int:
    with server.client() as tarry:
        found = tarry.groups(sort)
    counts = ("backlog", "claimed", "retrying", "dead_letters")
    rows = [(one["topic"], one["group"], *(one[name] for name in counts), _PAUSED[one["paused"]]) for one in found]
    columns = ("topic", "group", ">backlog", ">claimed", ">retrying", ">dead letters", "paused")
    return server.show(found, columns, rows)


@groups.command
def show(topic: Topic, group: Name, /, *, server: Server = HERE) -> int:
    """Show the settings of a group, and the defaults.

    Exit code 3 when there is none.
    """
    with server.client() as tarry:
        told = tarry.group(topic, group)
    return server.show([told], COLUMNS, group_rows(told))


@groups.command
def put(
    topic: Topic,
    group: Name,
    /,
    *,
    ladder: Ladder = None,
    jitter: Jitter = None,
    from_: Annotated[
        str | None,
        Parameter(name="--from", help="Where one begins that is made: earliest (unless said), latest, a time."),
    ] = None,
    on_exhausted: Annotated[
        Literal["dead", "block"] | None,
        Parameter(help="block, of ordered topics: at the ladder's end it comes again, and its key waits."),
    ] = None,
    concurrency: Annotated[Limit, limit("Messages in its clients' hands at once")] = None,
    server: Server = HERE,
) -> int:
    """Make a group of an existing topic, or change its settings.

    A setting that is left out stays as it is. `default` resets one: the ladder is then the topic's, or the
    server's. Exit code 3 when there is no such topic.
    """
    said: dict[str, Any] = {
        "ladder": rungs(ladder),
        "jitter": jitter,
        "on_exhausted": on_exhausted,
        "concurrency": concurrency,
    }
    with server.client() as tarry, told_of_flags():
        known = _known(tarry, topic, group)
        told = tarry.put_group(topic, group, start=from_, **said)
    remark = what_was_done(known, said)
    if known and from_ is not None:
        remark += "; --from is of one that is made, and tarry seek moves it"
    return server.show([told], COLUMNS, group_rows(told), remark)


def _known(tarry: Tarry, topic: str, group: str) -> bool | None:
    """Whether the group exists; None if the key may change it but not read it. Raises `NotFound` if the topic does not
    exist, since the server would create it: a typo must not create a topic."""
    try:
        return group in [one["group"] for one in tarry.topic(topic)["groups"]]
    except Forbidden:
        return None


@groups.command
def rm(topic: Topic, group: Name, /, *, dry_run: DryRun = False, yes: Yes = False, server: Server = HERE) -> int:
    """Remove a group for good, with its retries and dead letters.

    Exit code 3 when there is none.
    """
    with server.client() as tarry:
        return _delete(tarry, topic, group, server, dry_run=dry_run, yes=yes)


_PAUSED = {True: "yes", False: ""}


def _paused(group: Mapping[str, Any], server: Server) -> int:
    remark = "paused: nothing is handed out until it is resumed" if group["paused"] else "resumed"
    return server.show([group], ("group", "paused"), [(group["group"], _PAUSED[group["paused"]])], remark)


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
