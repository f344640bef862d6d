"""Makes the calls that claim, ack, fail and extend, that give a sign of life, and that deregister a client. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from . import shares
from .bodies import encode
from .calls import Call, Reply, group_path, part
from .durations import Duration, duration_out, instant_in, instant_out
from .errors import TarryError
from .records import Alive, Claim, Failed, Message

Subscription = tuple[str, str]
"""Topic and group."""


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
    tells: bool = False,
) -> Call[Claim | None]:
    """Claims up to `size` messages; None if there are none. `wait` and `lease` are milliseconds. `tells`: the client
    will say which messages it begins."""
    request: dict[str, Any] = {"client": client, "max": size, "wait": wait, "lease": lease}
    if tells:
        request["tells_begun"] = True
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

    return Call("POST", f"{group_path(topic, group)}/claim", read, encode(request), wait=wait / 1000)


def renew(client: str, begun: Sequence[tuple[str, Sequence[str]]] = ()) -> Call[Alive]:
    """A sign of life; the answer says how long the client counts as alive. `begun`: ids of begun messages by claim."""
    said = encode({"begun": [{"claim": claim, "ids": ids} for claim, ids in begun]}) if begun else None
    return Call("POST", f"/v1/clients/{part(client)}/renew", lambda reply: Alive.read(reply.document), said)


def deregister(client: str) -> Call[int]:
    """Ends the claims of a client that leaves; the answer is how many."""
    return Call("DELETE", f"/v1/clients/{part(client)}", lambda reply: int(reply.document["claims"]))


def ack(claim: str, ids: Sequence[str] | None, place: Subscription | None = None) -> Call[int]:
    """Acks messages of a claim; the answer is how many, or `LeaseLost`. `place` is its topic and group, if known."""
    request = {} if ids is None else {"ids": ids}

    def read(reply: Reply) -> int:
        return int(reply.document.get("acked", 0))

    content = encode({"claim": claim, "ack": "all" if ids is None else ids})
    share = shares.settlement(place, content, 0 if ids is None else len(ids))
    return Call("POST", _path(claim, "ack"), read, encode(request), share=share)


def fail(
    claim: str,
    ids: Sequence[str] | None,
    *,
    reason: str | None,
    retry_after: Duration | None,
    count: bool,
    place: Subscription | None = None,
) -> Call[Failed]:
    """Fails messages of a claim; `LeaseLost` if nothing was done, or if a try whose answer was lost did it."""
    request: dict[str, Any] = {"count": count}
    if ids is not None:
        request["ids"] = ids
    if reason is not None:
        request["reason"] = reason
    if retry_after is not None:
        request["retry_after"] = duration_out(retry_after, "retry_after")

    def read(reply: Reply) -> Failed:
        return Failed(int(reply.document.get("retried", 0)), int(reply.document.get("dead", 0)))

    share = shares.settlement(place, encode({"claim": claim, "fail": request}), 0 if ids is None else len(ids))
    return Call("POST", _path(claim, "fail"), read, encode(request), share=share)


def together(calls: Iterable[Call[Any]]) -> Iterator[list[Call[Any]]]:
    """Divides acks and fails into requests, in their order; a call that cannot be shared is by itself."""
    some: list[Call[Any]] = []
    size = 0
    for call in calls:
        size += shares.MAX_BYTES if call.share is None else call.share.size + 1
        if some and (size > shares.MAX_BYTES or len(some) == shares.MAX_SHARES):
            yield some
            some, size = [], 0 if call.share is None else call.share.size + 1
        some.append(call)
    if some:
        yield some


def settle(calls: Sequence[Call[Any]]) -> Call[list[TarryError | None]]:
    """Sends acks and fails in one request; the answer is the error of each, or None. Each must have a share."""
    parts = [call.share.content for call in calls if call.share is not None]

    def read(reply: Reply) -> list[TarryError | None]:
        if len(reply.document.get("settled", ())) != len(parts):
            raise TarryError("of acks and fails that were sent together not each was answered: is it Tarry?")
        errors = [None if isinstance(one, Reply) else one for one in shares.settled(reply.document)]
        for error in errors:
            if error is not None:
                error.in_doubt = reply.in_doubt
        return errors

    return Call("POST", shares.SETTLE, read, shares.SETTLEMENTS.content(parts))


def extend(claim: str, lease: int, begun: Sequence[str] = ()) -> Call[datetime]:
    """Renews a lease for `lease` milliseconds; the answer is its end. The server notes which messages were begun."""
    request: dict[str, Any] = {"lease": lease}
    if begun:
        request["begun"] = list(begun)
    return Call(
        "POST", _path(claim, "extend"), lambda reply: instant_in(reply.document["lease_until"]), encode(request)
    )


def _path(claim: str, verb: str) -> str:
    return f"/v1/claims/{part(claim)}/{verb}"
