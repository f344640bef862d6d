"""Explains how late a message is, and why: a sentence for each group, from the message's life or, if the group has not
had it yet, from the group's position."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ...client import Tarry, TarryError

_GROUPS = 20
"""The most groups that are examined for why they have not had the message."""
_SOME_TIME = 1_000
"""Milliseconds of lateness that need no explanation."""


def sentences(tarry: Tarry, message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(label, how late and why) for the message or each group. What the key may not read is left out."""
    overdue = _since(message["deliver_at"])
    try:
        if message["state"] == "scheduled":
            if overdue > 0:
                yield "late", f"{overdue} ms so far: {_why_waiting(tarry, message)}"
        elif message["state"] == "published":
            yield from _published(tarry, message, overdue)
    except TarryError:
        return  # removed meanwhile, or out of the key's reach


def _since(at: str) -> int:
    return round((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds() * 1000)


def _why_waiting(tarry: Tarry, message: Mapping[str, Any]) -> str:
    if message.get("held"):
        return f"its guard holds it: {message['held']}"
    topic = tarry.topic(message["topic"])
    if topic["release_rate"] is not None and topic["held_back"]:
        return f"{topic['held_back']} messages are held back by the topic's release rate of {topic['release_rate']}/s"
    return "no server has handed it out yet; tarry doctor tells what hinders it"


def _published(tarry: Tarry, message: Mapping[str, Any], overdue: int) -> Iterator[tuple[str, str]]:
    promoted = next((one.get("late", 0) for one in message["life"] if one["what"] == "promoted"), 0)
    in_queue = f"{promoted} ms until it was in its queue, " if promoted else ""
    seen = set[str]()
    for one in message["life"]:
        if "group" not in one:
            continue
        if "late" in one:
            waited = one["late"] - promoted
            yield f"late for {one['group']}", f"{one['late']} ms: {in_queue}{waited} ms until it was claimed"
        seen.add(one["group"])
    if overdue < _SOME_TIME:
        return
    topic = tarry.topic(message["topic"])
    if topic["kind"] == "broadcast":
        return  # each client has its own offset
    for group in [one["group"] for one in topic["groups"] if one["group"] not in seen][:_GROUPS]:
        why = _why_not_claimed(tarry.group(message["topic"], group), message)
        yield f"late for {group}", f"{overdue} ms so far: {in_queue}{why}"


def _why_not_claimed(group: Mapping[str, Any], message: Mapping[str, Any]) -> str:
    if group["paused"]:
        return "the group is paused"
    before = {queue["queue"]: message["offset"] - queue["offset"] for queue in group["queues"]}.get(message["queue"])
    if before is not None and before < 0:
        return "the group's offset is behind it: a seek, or what was told of it is past its retention"
    if not group["clients"]:
        return "no client consumes for the group"
    return f"{before} messages of queue {message['queue']} come before it" if before else "it is the next of its queue"
