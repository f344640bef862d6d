"""The commands `topics` and `topics show|put|rm`, which list, show, create, change and remove topics."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from cyclopts import App, Parameter

from ...client import Conflict, Forbidden, NotFound, Tarry
from .flags import flag, whole
from .operating import confirm
from .options import DryRun, Topic, Yes
from .printing import UsageError
from .putting import COLUMNS, Jitter, Ladder, Limit, limit, or_duration, rungs, told_of_flags, topic_rows
from .server import HERE, Server

topics = App(name="topics", help="List topics; show, make, change or remove one.")

_COUNTS = (
    "accepted",
    "streamed",
    "cancelled",
    "replaced",
    "suppressed",
    "pending",  # the first is the sum of the others
    "backlog",
    "published_rate",
    "delivered_rate",
)


@topics.default
def list_(
    *,
    sort: Annotated[
        Literal["name", "rate", "backlog"], Parameter(help="By name, messages a second, or what waits.")
    ] = "name",
    delete: Annotated[str | None, Parameter(help="Remove this topic for good, with its groups and messages.")] = None,
    force: Annotated[bool, flag("With --delete: also while messages wait or are unsettled; they are dropped.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """List topics; show, make, change or remove one.

    It lists them with their rates of the last minute and their backlogs.
    """
    if delete is not None:
        with server.client() as tarry:
            return _delete(tarry, delete, server, force=force, dry_run=dry_run, yes=yes)
    if force or dry_run or yes:
        raise UsageError("--force, --dry-run and --yes go with --delete")
    with server.client() as tarry:
        records = tarry.topics(sort)
    counts = [name for name in _COUNTS if any(name in record for record in records)]
    rows = [
        (r.get("topic") or r.get("name"), r.get("kind"), _count(r.get("queues")), *(r.get(name) for name in counts))
        for r in records
    ]
    heads = (f">{name.replace('_rate', '/s')}" for name in counts)
    return server.show(records, ("topic", "kind", ">queues", *heads), rows)


@topics.command
def show(topic: Topic, /, *, server: Server = HERE) -> int:
    """Show the settings of a topic, and the server's defaults.

    Exit code 3 when there is none.
    """
    with server.client() as tarry:
        told = tarry.topic(topic)
    return server.show([told], COLUMNS, topic_rows(told))


@topics.command
def put(
    topic: Topic,
    /,
    *,
    queues: Annotated[int | None, whole("1 to 1024; they are added, and never taken away. 1 unless said.")] = None,
    ordered: Annotated[
        bool | None, Parameter(help="Messages of one ordering key one after the other. It stays as it was made.")
    ] = None,
    kind: Annotated[
        Literal["cluster", "broadcast"] | None,
        Parameter(help="broadcast: each client of a group gets all. It stays as it was made."),
    ] = None,
    retention: Annotated[
        str | None,
        Parameter(
            converter=or_duration,
            allow_leading_hyphen=True,
            help="How long a message stays once every group has settled it: 30d; or default.",
        ),
    ] = None,
    ladder: Ladder = None,
    jitter: Jitter = None,
    max_pending: Annotated[Limit, limit("Messages that may wait for their time")] = None,
    max_rate: Annotated[Limit, limit("Messages accepted a second")] = None,
    release_rate: Annotated[Limit, limit("Of what falls due, so many a second")] = None,
    sequencer: Annotated[
        Literal["store", "redis"] | None, Parameter(help="Who draws the offsets; redis on MySQL only.")
    ] = None,
    server: Server = HERE,
) -> int:
    """Make a topic, or change its settings.

    A setting that is left out stays as it is. `default` resets one: from then on it is the server's.
    """
    said: dict[str, Any] = {
        "queues": queues,
        "ordered": ordered,
        "kind": kind,
        "retention": retention,
        "ladder": rungs(ladder),
        "jitter": jitter,
        "max_pending": max_pending,
        "max_rate": max_rate,
        "release_rate": release_rate,
        "sequencer": sequencer,
    }
    with server.client() as tarry, told_of_flags():
        known = _known(tarry, topic)
        told = tarry.put_topic(topic, **said)
    return server.show([told], COLUMNS, topic_rows(told), what_was_done(known, said))


def _known(tarry: Tarry, topic: str) -> bool | None:
    """Whether the topic exists; None if the key may change it but not read it."""
    try:
        tarry.topic(topic)
    except NotFound:
        return False
    except Forbidden:
        return None
    return True


def what_was_done(known: bool | None, said: Mapping[str, Any]) -> str:
    if known is False:
        return "made"
    if all(value is None for value in said.values()):
        return "it is there, and nothing of it was changed"
    return "made, or changed" if known is None else "changed"


@topics.command
def rm(
    topic: Topic,
    /,
    *,
    force: Annotated[bool, flag("Also while messages wait or are unsettled; they are dropped.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = HERE,
) -> int:
    """Remove a topic for good, with its groups and messages.

    Exit code 3 when there is none.
    """
    with server.client() as tarry:
        return _delete(tarry, topic, server, force=force, dry_run=dry_run, yes=yes)


def _delete(tarry: Tarry, topic: str, server: Server, *, force: bool, dry_run: bool, yes: bool) -> int:
    state = tarry.topic(topic)
    groups = [group["group"] for group in state["groups"]]
    if not dry_run:
        told = f"pending {state['pending']}, groups {', '.join(groups) or 'none'}"
        confirm(f"remove topic {topic} and all its messages for good ({told})", yes=yes)
        try:
            tarry.delete_topic(topic, force=force)
        except Conflict as error:
            error.args = (str(error).replace("force the removal", "say --force"),)
            raise
    record = {"topic": topic, "removed": not dry_run, "pending": state["pending"], "groups": groups}
    row = (topic, state["pending"], ", ".join(groups))
    remark = "nothing was removed: --dry-run" if dry_run else "removed"
    return server.show([record], ("topic", ">pending", "groups"), [row], remark)


def _count(queues: Any) -> Any:
    return len(cast("list[object]", queues)) if isinstance(queues, list) else queues
