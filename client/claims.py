"""Claim, ack, fail, extend, and the signs of life of who claims: the calls of `consume`, `run` and of users. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from .bodies import encode
from .calls import Call, Reply, part
from .durations import Duration, duration_out, instant_in, instant_out
from .records import Alive, Claim, Failed, Message


def claim(
    topic: str,
    group: str,
    *,
    client: str,
    size: int,
    wait: int,
    lease: int,
    tags: Sequence[str] | None = None,
    start: datetime | str | None = None,
    after: str | None = None,
) -> Call[Claim | None]:
    """Up to `size` messages; None when there are none. `wait` and `lease` are milliseconds."""
    request: dict[str, Any] = {"client": client, "max": size, "wait": wait, "lease": lease}
    if tags is not None:
        request["tags"] = list(tags)
    if start is not None:
        request["from"] = instant_out(start, "start")
    if after is not None:
        request["after"] = after

    def read(reply: Reply) -> Claim | None:
        document = reply.document
        id_ = document["claim"]
        messages = tuple(Message.read(record, topic) for record in document["messages"])
        if id_ is not None:
            until = instant_in(document["lease_until"])
            return Claim(id_, topic, group, until, messages, reply.size, document.get("ordered", False))
        if not messages:
            return None
        never = datetime.max.replace(tzinfo=UTC)
        return Claim("", topic, group, never, messages, reply.size, next=document["next"])

    path = f"/v1/topics/{part(topic)}/groups/{part(group)}/claim"
    return Call("POST", path, read, encode(request), wait=wait / 1000)


def renew(client: str) -> Call[Alive]:
    """How long the client is taken to live, without another sign of life."""
    return Call("POST", f"/v1/clients/{part(client)}/renew", lambda reply: Alive.read(reply.document))


def deregister(client: str) -> Call[int]:
    """How many of its claims were ended."""
    return Call("DELETE", f"/v1/clients/{part(client)}", lambda reply: int(reply.document["claims"]))


def ack(claim: str, ids: Iterable[str] | None) -> Call[int]:
    """How many were acked; `LeaseLost` when none was."""
    request = {} if ids is None else {"ids": list(ids)}
    return Call("POST", _path(claim, "ack"), lambda reply: int(reply.document.get("acked", 0)), encode(request))


def fail(
    claim: str, ids: Iterable[str] | None, *, reason: str | None, retry_after: Duration | None, count: bool
) -> Call[Failed]:
    """What became of them; `LeaseLost` when nothing was done, or when a try whose answer was lost did it."""
    request: dict[str, Any] = {"count": count}
    if ids is not None:
        request["ids"] = list(ids)
    if reason is not None:
        request["reason"] = reason
    if retry_after is not None:
        request["retry_after"] = duration_out(retry_after, "retry_after")

    def read(reply: Reply) -> Failed:
        return Failed(int(reply.document.get("retried", 0)), int(reply.document.get("dead", 0)))

    return Call("POST", _path(claim, "fail"), read, encode(request))


def extend(claim: str, lease: int) -> Call[datetime]:
    """The new end of the lease of so many milliseconds."""
    return Call(
        "POST",
        _path(claim, "extend"),
        lambda reply: instant_in(reply.document["lease_until"]),
        encode({"lease": lease}),
    )


def _path(claim: str, verb: str) -> str:
    return f"/v1/claims/{part(claim)}/{verb}"
