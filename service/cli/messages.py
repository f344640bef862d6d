"""The commands `show`, `find` and `reschedule`: one message by its id, and messages by key, state and time."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from ...client import Tarry
from ...store.printable import json_text
from . import lateness
from .flags import Max
from .options import At, Delay, MessageId, Topic
from .printing import UsageError, print_json
from .rendering import time_text
from .server import HERE, Server

State: TypeAlias = Literal["scheduled", "published", "cancelled", "suppressed", "claimed", "retrying", "parked", "dead"]
_STANDINGS = ("claimed", "retrying", "parked", "dead")
"""States that a message has within a group."""


def show(id: MessageId, /, *, server: Server = HERE) -> int:  # noqa: A002 - the contract's word
    """Show a message, its state, and its life.

    Times are to the millisecond, with how late it is for each group, and why. Exit code 3 when there is none.
    """
    with server.client() as tarry:
        message = tarry.message(id)
        if server.json:
            print_json(message)
            return 0
        late = list(lateness.sentences(tarry, message))
    facts = [(name, value) for name, value in message.items() if name != "life" and value is not None]
    facts = [(name, json_text(value) if name == "body" else value) for name, value in facts]
    server.show([], ("field", "value"), [*facts, *late])
    return server.show([], ("at", ">ms", "what", "group", ">attempt", "client", "reason"), _life(message["life"]))


def _life(life: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """A row for each event, with the milliseconds since the one before."""
    before: datetime | None = None
    for one in life:
        at = datetime.fromisoformat(one["at"])
        since = None if before is None else round((at - before).total_seconds() * 1000)
        before = at
        group, attempt, client, reason = (one.get(name) for name in ("group", "attempt", "client", "reason"))
        yield one["at"], since, one["what"], group, attempt, client, reason


def find(
    topic: Topic,
    /,
    *,
    key: Annotated[str | None, Parameter(help="Those of this key.")] = None,
    state: Annotated[State | None, Parameter(help="Those in this state; from claimed on, in some group.")] = None,
    since: Annotated[
        str | None, Parameter(name="--from", help="Those due then or later: 2030-01-01T09:00:00Z.")
    ] = None,
    until: Annotated[str | None, Parameter(name="--to", help="Those due before.")] = None,
    max: Max = None,  # noqa: A002 - the contract's word
    server: Server = HERE,
) -> int:
    """Find messages of a topic, by key, state and time.

    Without --key and --state: all that wait, the next due first, and all in the stream, the newest first, some of each
    in turn. --from and --to compare when published, claimed, parked and dead messages became so. Exit code 0, also
    when there are none.
    """
    if max is not None and max < 1:
        raise UsageError("--max is 1 or more")
    with server.client() as tarry:
        found = islice(_find(tarry, topic, key, state, since, until), max)
        columns = ("id", "state", "deliver at", "key", "last", "at", "body")
        return server.show(found, columns, map(_row, found))


def _find(
    tarry: Tarry, topic: str, key: str | None, state: State | None, since: str | None, until: str | None
) -> Iterator[dict[str, Any]]:
    """The messages of all pages, each once: one that has the state in two groups is on two pages."""
    seen: set[str] = set()
    for one in tarry.find(topic, key=key, state=state, start=since, end=until):
        if one["id"] not in seen:
            if state in _STANDINGS:  # in other states no message comes twice, and there may be millions
                seen.add(one["id"])
            yield one


def _row(one: Mapping[str, Any]) -> tuple[Any, ...]:
    last: Mapping[str, Any] = one["life"][-1] if one["life"] else {}
    what = " ".join(str(last[name]) for name in ("what", "group") if name in last)
    return one["id"], one["state"], one["deliver_at"], one["key"], what, last.get("at"), _body(one)


def _body(one: Mapping[str, Any]) -> str:
    if "body_base64" in one:
        return f"bytes of {one.get('content_type')}"
    return json_text(one["body"]) if "body" in one else ""


def reschedule(
    id: MessageId,  # noqa: A002 - the contract's word
    /,
    *,
    delay: Delay = None,
    at: At = None,
    server: Server = HERE,
) -> int:
    """Give a message that waits another time; its id stays.

    Exit code 4 when it was handed out already, 1 when it was cancelled, 3 when there is none.
    """
    if (delay is None) == (at is None):
        raise UsageError("reschedule takes --delay or --at, one of them")
    with server.client() as tarry:
        done = tarry.reschedule(id, delay=delay, deliver_at=at)
    moved = time_text(done.deliver_at)
    record = {"result": "rescheduled", "id": done.id, "deliver_at": moved}
    return server.show([record], ("id", "deliver at"), [(done.id, moved)])
