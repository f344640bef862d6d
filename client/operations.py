"""What an operator does to a group, and pages of what there is. Pure.

The server cuts what takes long: a page counts what was done, and its next call goes on. Stopping in between undoes
nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from .arguments import given
from .bodies import encode
from .calls import Call, Page, Reply, paged, part
from .durations import instant_in, instant_out
from .records import DeadLetter, Erased, Message, Named, id_of

_PATIENCE = 25.0
"""Seconds that the server may take for one call: it stops after 20."""

OnProgress = Callable[[int], object]
"""Called with how many there were so far."""


def seek(topic: str, group: str, to: str | datetime | int, *, queue: int | None, dry_run: bool) -> Call[dict[int, int]]:
    """The offset by queue."""
    target: str | dict[str, Any]
    if isinstance(to, int):
        target = {"offset": to}
    elif isinstance(to, str) and to in ("earliest", "latest"):
        target = to
    else:
        target = {"time": instant_out(to, "to")}
    if queue is not None:
        if isinstance(target, str):
            raise ValueError("queue goes with an offset or a time; earliest and latest move all queues")
        target["queue"] = queue

    def read(reply: Reply) -> dict[int, int]:
        return {place["queue"]: place["offset"] for place in reply.document["queues"]}

    content = encode({"to": target, "dry_run": dry_run})
    return Call("POST", f"{_path(topic, group)}/seek", read, content, wait=_PATIENCE)


def replay(
    topic: str,
    group: str,
    start: str | datetime | int,
    end: str | datetime | int | None,
    *,
    queue: int | None,
    name: str | None,
    dry_run: bool,
) -> Call[Page[int]]:
    """How many. A call is not tried again by itself: one that was done in full would be done twice."""
    request = {"from": _place(start), "to": _place(end), "queue": queue, "dry_run": dry_run, "name": name}
    content = encode(given(request))

    def read(reply: Reply) -> Page[int]:
        return Page((reply.document["replayed"],), call if reply.document["more"] else None)

    call = Call("POST", f"{_path(topic, group)}/replay", read, content, wait=_PATIENCE, once=True)
    return call


def which_letters(
    ids: Iterable[str] | None,
    *,
    start: str | datetime | None,
    end: str | datetime | None,
    key: str | None,
    tag: str | None,
    reason: str | None,
) -> dict[str, Any]:
    """All that is said has to fit."""
    said = {"key": key, "tag": tag, "reason": reason}
    return {"ids": None if ids is None else list(ids), **_range(start, end), **said}


def letters(
    verb: Literal["redrive", "purge"],
    topic: str,
    group: str,
    which: Mapping[str, Any],
    *,
    rate: int | None = None,
    dry_run: bool,
) -> Call[Page[int]]:
    """How many. Letters that die after the first call are not meant."""
    request = {**which, "rate": rate, "dry_run": dry_run}
    path = f"{_path(topic, group)}/dead/{verb}"

    def read(reply: Reply) -> Page[int]:
        document = reply.document
        count = document["redriven" if verb == "redrive" else "purged"]
        if not document["more"]:
            return Page((count,), None)
        begin = document.get("from", request["from"])  # an older server's answer has none
        return Page((count,), call({**request, "from": begin, "to": document["to"]}))

    def call(request: Mapping[str, Any]) -> Call[Page[int]]:
        return Call("POST", path, read, encode(given(request)), wait=_PATIENCE)

    return call(request)


def dead(
    topic: str,
    group: str,
    *,
    key: str | None = None,
    reason: str | None = None,
    start: str | datetime | None = None,
    end: str | datetime | None = None,
) -> Call[Page[DeadLetter]]:
    """Dead letters that fit."""

    def read(document: dict[str, Any]) -> Iterator[DeadLetter]:
        for record in document["messages"]:
            message = Message.read(record, topic)
            yield DeadLetter(message, instant_in(record["dead_at"]), tuple(record["attempts"]))

    return paged(f"{_path(topic, group)}/dead", {"key": key, "reason": reason, **_range(start, end)}, read)


def erase(id: Named) -> Call[Erased]:  # noqa: A002 - the contract's word
    """That it is erased."""
    return Call("POST", f"/v1/messages/{part(id_of(id))}/erase", lambda reply: Erased.read(reply.document))


def find(
    topic: str, *, key: str | None, state: str | None, start: str | datetime | None, end: str | datetime | None
) -> Call[Page[dict[str, Any]]]:
    """Messages that fit."""
    search = {"topic": topic, "key": key, "state": state, **_range(start, end)}
    return paged("/v1/messages", search, lambda document: document["messages"])


def _path(topic: str, group: str) -> str:
    return f"/v1/topics/{part(topic)}/groups/{part(group)}"


def _place(place: str | datetime | int | None) -> str | int | None:
    return place if place is None or isinstance(place, int) else instant_out(place, "start")


def _range(start: str | datetime | None, end: str | datetime | None) -> dict[str, str | None]:
    return {
        "from": None if start is None else instant_out(start, "start"),
        "to": None if end is None else instant_out(end, "end"),
    }
