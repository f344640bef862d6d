"""Claim, ack, fail, extend: one method, one call."""

import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from .durations import Duration, duration_out, instant_in, instant_out
from .paths import part
from .records import Alive, Claim, Failed, Message
from .transport import Transport, encode


class Claims:
    """The consuming half of `Tarry`, without the loop."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def claim(
        self,
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
        deadline: float | None = None,
        abandon: threading.Event | None = None,
    ) -> Claim | None:
        """Up to `size` messages; None when there are none. `wait` and `lease` are milliseconds."""
        request: dict[str, Any] = {
            "client": client,
            "max": size,
            "wait": wait,
            "lease": lease,
        }
        if tags is not None:
            request["tags"] = list(tags)
        if start is not None:
            request["from"] = instant_out(start, "start")
        if after is not None:
            request["after"] = after
        path = f"/v1/topics/{part(topic)}/groups/{part(group)}/claim"
        reply = self._transport.call(
            "POST", path, encode(request), wait=wait / 1000, deadline=deadline, abandon=abandon
        )
        document = reply.document
        claim = document["claim"]
        messages = tuple(Message.read(record, topic) for record in document["messages"])
        if claim is None:
            if not messages:
                return None
            return Claim(
                *("", topic, group, datetime.max.replace(tzinfo=UTC), messages, reply.size), next=document["next"]
            )
        until = instant_in(document["lease_until"])
        return Claim(claim, topic, group, until, messages, reply.size, document.get("ordered", False))

    def renew(self, client: str, *, deadline: float | None = None, abandon: threading.Event | None = None) -> Alive:
        """How long the client is taken to live, without another sign of life."""
        path = f"/v1/clients/{part(client)}/renew"
        reply = self._transport.call("POST", path, deadline=deadline, abandon=abandon)
        return Alive.read(reply.document)

    def deregister(self, client: str, *, deadline: float | None = None) -> int:
        """How many of its claims were ended."""
        path = f"/v1/clients/{part(client)}"
        return int(self._transport.call("DELETE", path, deadline=deadline).document["claims"])

    def ack(
        self,
        claim: str,
        ids: Iterable[str] | None,
        *,
        deadline: float | None = None,
        abandon: threading.Event | None = None,
    ) -> int:
        """How many were acked; `LeaseLost` when none was."""
        request = {} if ids is None else {"ids": list(ids)}
        document = self._settle(claim, "ack", request, deadline, abandon)
        return int(document.get("acked", 0))

    def fail(
        self,
        claim: str,
        ids: Iterable[str] | None,
        *,
        reason: str | None,
        retry_after: Duration | None,
        count: bool,
        deadline: float | None = None,
        abandon: threading.Event | None = None,
    ) -> Failed:
        """What became of them; `LeaseLost` when nothing was done, or when a try whose answer was lost did it."""
        request: dict[str, Any] = {"count": count}
        if ids is not None:
            request["ids"] = list(ids)
        if reason is not None:
            request["reason"] = reason
        if retry_after is not None:
            request["retry_after"] = duration_out(retry_after, "retry_after")
        document = self._settle(claim, "fail", request, deadline, abandon)
        return Failed(int(document.get("retried", 0)), int(document.get("dead", 0)))

    def extend(
        self, claim: str, lease: int, *, deadline: float | None = None, abandon: threading.Event | None = None
    ) -> datetime:
        """The new end of the lease of so many milliseconds."""
        document = self._settle(claim, "extend", {"lease": lease}, deadline, abandon)
        return instant_in(document["lease_until"])

    def _settle(
        self,
        claim: str,
        verb: str,
        request: dict[str, Any],
        deadline: float | None,
        abandon: threading.Event | None,
    ) -> dict[str, Any]:
        path = f"/v1/claims/{part(claim)}/{verb}"
        return self._transport.call("POST", path, encode(request), deadline=deadline, abandon=abandon).document
