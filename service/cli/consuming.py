"""The commands `consume` and `peek`, which read messages."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ...client import Claim, Delivery, LeaseLost, Message, NotFound, Tarry
from .flags import flag, whole
from .near import hint
from .options import Topic
from .printing import UsageError, note, print_json, print_line
from .rendering import body_text, message_record, raw_body, time_text
from .server import HERE, Server


def consume(
    topics: Annotated[list[str], Parameter(name="TOPIC", help="The topic, or several, one of each in turn.")],
    /,
    *,
    group: Annotated[str, Parameter(help="The consumer group; a new one with --from.")],
    max: Annotated[  # noqa: A002 - the contract's word
        int | None, whole("End after so many messages.")
    ] = None,
    follow: Annotated[bool, flag("Wait for more, until Ctrl-C.")] = False,
    ack: Annotated[bool, Parameter(help="With --no-ack, show them and give them back.")] = True,
    exec: Annotated[  # noqa: A002 - the contract's word
        list[str] | None,
        Parameter(
            help="Run this for each message, the body on its stdin, the topic in TARRY_TOPIC; when it fails, so does "
            "the message. The last flag.",
            consume_multiple=True,
            allow_leading_hyphen=True,
            negative=(),
        ),
    ] = None,
    tag: Annotated[
        list[str] | None, flag("Only messages of this tag; may be repeated. Others are skipped for the group.")
    ] = None,
    client: Annotated[
        str | None, Parameter(help="The client's name; on a broadcast topic its offset is kept under it.")
    ] = None,
    start: Annotated[
        Literal["earliest", "latest"] | None,
        Parameter(name="--from", help="Make the group if there is none, from here on; or a broadcast client."),
    ] = None,
    server: Server = HERE,
) -> int:
    """Take messages, print them and ack them.

    It ends when there are no more messages; with --follow it waits for more.
    """
    for index, topic in enumerate(topics):
        if topic in topics[:index]:
            raise UsageError(f"{topic} is there twice: name a topic once")
    if max is not None and max < 1:
        raise UsageError("--max is 1 or more")
    if not ack and (follow or exec):
        raise UsageError("--no-ack goes with neither --follow nor --exec: it only shows what is there now")
    if exec is not None and not exec:
        # Mostly an empty shell variable. Without a command all messages would be acked though nothing was done.
        raise UsageError("--exec: say what to run, there is nothing behind it")
    if exec and shutil.which(exec[0]) is None:
        # Checked before anything is claimed: else every message would fail, one attempt after the other.
        raise UsageError(f"--exec: there is no command {exec[0]!r} that can be run")
    terms: dict[str, Any] = {"tags": tag, "client": client, "start": start}
    with server.client() as tarry:
        for topic in topics:
            if start is None:
                _demand_group(tarry, topic, group)
            else:
                _demand_topic(tarry, topic)
        several = len(topics) > 1
        if not ack:
            left = max or 1000
            for topic in topics:
                left -= _show(tarry, topic, group, left, server, terms, several=several)
            return 0
        idle = None if follow else 1.0
        for delivery in tarry.consume(
            topics, group, max=min(max or 10, 10), wait="1s", limit=max, idle_timeout=idle, **terms
        ):
            with delivery:
                if exec:
                    _run(exec, delivery)
                else:
                    _print_message(delivery, server, several=several)
    return 0


def _run(command: Sequence[str], delivery: Delivery) -> None:
    """Runs the command with the message, and fails the message if the command fails."""
    environment = {**os.environ, "TARRY_TOPIC": delivery.topic}
    code = subprocess.run(command, input=raw_body(delivery), env=environment, check=False).returncode  # noqa: S603
    if code != 0:
        note(f"message {delivery.id}: {command[0]} ended with {code}")
        delivery.fail(f"{command[0]} ended with {code}")


def _show(
    tarry: Tarry, topic: str, group: str, limit: int, server: Server, terms: dict[str, Any], *, several: bool
) -> int:
    """Prints messages and gives them back; returns how many."""
    claims: list[Claim] = []
    shown = 0
    try:
        while limit > 0 and (claim := tarry.claim(topic, group, max=min(limit, 1000), after="", **terms)) is not None:
            if claim.next is None:
                claims.append(claim)
                limit -= len(claim.messages)
            else:
                limit = 0  # a broadcast topic would give the same messages again, since they are not confirmed
            for message in claim.messages:
                _print_message(message, server, several=several)
            shown += len(claim.messages)
    finally:
        for claim in claims:
            with suppress(LeaseLost):
                tarry.fail(claim, reason="shown", retry_after=0, count=False)
    return shown


def _print_message(message: Message, server: Server, *, several: bool) -> None:
    if server.json or not sys.stdout.isatty():
        print_json(message_record(message))
    else:
        label = "" if message.key is None else f"  {message.key}"
        topic = f"{message.topic}  " if several else ""
        print_line(f"{topic}{message.id}  attempt {message.attempt}{label}  {body_text(message)}")


def peek(
    topic: Topic,
    /,
    *,
    queue: Annotated[int, whole("Which queue of the topic.")] = 0,
    offset: Annotated[int, whole("From this offset on.")] = 0,
    max: Annotated[int, whole("At most so many.")] = 20,  # noqa: A002
    server: Server = HERE,
) -> int:
    """Look at a topic's stream without claiming anything.

    Waiting messages are not in it yet.
    """
    with server.client() as tarry:
        _demand_topic(tarry, topic)
        page = tarry.pull(topic, queue, offset, max)
    rows = [(m.offset, m.id, m.key, time_text(m.deliver_at), body_text(m)) for m in page.messages]
    remark = f"next: --offset {page.next_offset}" if page.messages else ""
    return server.show(map(message_record, page.messages), (">offset", "id", "key", "deliver at", "body"), rows, remark)


# A topic or group that a command reads must exist: a typo must not create a new one


def _demand_topic(tarry: Tarry, topic: str) -> dict[str, Any]:
    """The topic, as the server describes it. Raises `NotFound` with the nearest name."""
    try:
        return tarry.topic(topic)
    except NotFound:
        names = (str(record.get("topic") or record.get("name")) for record in tarry.topics())
        raise NotFound(f'there is no topic "{topic}"{hint(topic, names)}; publishing makes one') from None


def _demand_group(tarry: Tarry, topic: str, group: str) -> None:
    """Raises `NotFound`, with the nearest name, if the topic or the group does not exist."""
    try:
        tarry.group(topic, group)
    except NotFound:
        names = (str(record["group"]) for record in _demand_topic(tarry, topic)["groups"])
        near = hint(group, names)
        raise NotFound(f'{topic} has no group "{group}"{near}; --from earliest or --from latest makes one') from None
