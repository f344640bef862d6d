"""The commands `timer set|show|list|cancel`: a timer is the one waiting message of a key."""

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import attrs
from cyclopts import App, Parameter

from ...client import Timer
from .flags import Max, whole
from .options import AsText, At, Body, ContentType, Delay, ExpiresAt, Guard, Header, OrderingKey, Tag, Topic, duration
from .printing import UsageError
from .producing import body_of, headers_of
from .rendering import time_text
from .server import HERE, Server

timer = App(name="timer", help="Set, list and cancel timers: for each key one message waits.")

Key = Annotated[str, Parameter(help="A key of your own, such as order-7.")]
Match = Annotated[int | None, whole("Only at this revision.")]


@timer.command(name="set")
def set_(
    topic: Topic,
    key: Key,
    body: Body,
    /,
    *,
    text: AsText = False,
    content_type: ContentType = None,
    delay: Delay = None,
    at: At = None,
    expires_at: ExpiresAt = None,
    mode: Annotated[
        Literal["replace", "keep", "debounce"], Parameter(help="What becomes of one that waits already.")
    ] = "replace",
    max_wait: Annotated[
        str | None, Parameter(converter=duration, help="Of debounce: how long it waits at most.")
    ] = None,
    match: Annotated[int | None, whole("Only at this revision; 0: only when none waits.")] = None,
    header: Header = None,
    tag: Tag = None,
    ordering_key: OrderingKey = None,
    guard: Guard = None,
    server: Server = HERE,
) -> int:
    """Set the timer of a key.

    Its message replaces one that waits already, unless --mode says otherwise.
    """
    with server.client() as tarry:
        done = tarry.set_timer(
            topic,
            key,
            body_of(body, text, content_type),
            delay=delay,
            deliver_at=at,
            expires_at=expires_at,
            mode=mode,
            max_wait=max_wait,
            match=match,
            headers=headers_of(header),
            tag=tag,
            ordering_key=ordering_key,
            guard=guard,
            content_type=content_type,
        )
    return _show(server, done)


@timer.command
def show(topic: Topic, key: Key, /, *, server: Server = HERE) -> int:
    """Show the timer of a key, and the state of its message.

    Exit code 3 when there is none.
    """
    with server.client() as tarry:
        return _show(server, tarry.timer(topic, key))


@timer.command(name="list")
def list_(
    topic: Topic,
    /,
    *,
    max: Max = None,  # noqa: A002 - the contract's word
    server: Server = HERE,
) -> int:
    """List the timers of a topic by key, with their messages' states.

    Timers that are still remembered though their message waits no more are included.
    """
    if max is not None and max < 1:
        raise UsageError("--max is 1 or more")
    with server.client() as tarry:
        found = islice(tarry.timers(topic), max)
        return server.show(map(_record, found), _COLUMNS, map(_row, found))


@timer.command
def cancel(topic: Topic, key: Key, /, *, match: Match = None, server: Server = HERE) -> int:
    """Cancel the waiting message of a key's timer.

    Exit code 4 when it was handed out already, 3 when there is none.
    """
    with server.client() as tarry:
        result = tarry.cancel_timer(topic, key, match=match)
    return server.show([{"key": key, "result": result}], ("key", "result"), [(key, result)])


_COLUMNS: Sequence[str] = ("key", "id", ">revision", "state", "deliver at", "replaced", ">queue", ">offset")


def _show(server: Server, one: Timer) -> int:
    remark = "one waits already, and is kept: nothing was set" if one.kept else ""
    return server.show([_record(one)], _COLUMNS, [_row(one)], remark)


def _record(one: Timer) -> dict[str, Any]:
    return attrs.asdict(one) | {"deliver_at": time_text(one.deliver_at)}


def _row(one: Timer) -> tuple[Any, ...]:
    return one.key, one.id, one.revision, one.state, time_text(one.deliver_at), one.replaced, one.queue, one.offset
