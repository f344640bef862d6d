"""The calls on timers: each key has one message that waits."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from . import spans
from .arguments import given
from .bodies import written
from .calling import Calling
from .calls import Call, Page, Reply, paged, part
from .durations import Duration, duration_out
from .fronts import api_call, api_pages
from .identity import new_idempotency_key
from .records import Draft, Timer

Mode = Literal["replace", "keep", "debounce"]


class TimerCalls(Calling):
    """The calls on timers, of both fronts."""

    @api_call
    async def set_timer(
        self,
        topic: str,
        key: str,
        body: Any,
        *,
        delay: Duration | None = None,
        deliver_at: datetime | str | None = None,
        expires_at: datetime | str | None = None,
        mode: Mode = "replace",
        max_wait: Duration | None = None,
        match: int | None = None,
        headers: Mapping[str, str] | None = None,
        tag: str | None = None,
        ordering_key: str | None = None,
        queue: int | None = None,
        guard: str | None = None,
        idempotency_key: str | None = None,
        content_type: str | None = None,
    ) -> Timer:
        """Sets the timer of a key: the one message of that key that waits.

        A message that waits already is replaced; with `mode="keep"` it stays, and the new one is dropped; with
        `"debounce"` it is replaced, but waits no longer than `max_wait` since the timer was first set. `match`: only at
        this revision; 0: only if none waits. Raises `Changed`, and with `match` `TooLate` and `Cancelled`.
        """
        with spans.sending(topic, again=idempotency_key is not None) as sent:
            draft = Draft(
                body=body,
                content_type=content_type,
                delay=delay,
                deliver_at=deliver_at,
                expires_at=expires_at,
                headers=sent.carried(headers),
                tag=tag,
                ordering_key=ordering_key,
                queue=queue,
                guard=guard,
            )
            more = {
                "mode": mode,
                "max_wait": None if max_wait is None else duration_out(max_wait, "max_wait"),
                "idempotency_key": idempotency_key or new_idempotency_key(),
            }
            content = written(draft, self._json, **given(more))
            call = Call("PUT", _path(topic, key), _read, content, headers=condition(match))
            return sent.done(await self._publish(topic, call, body))

    @api_call
    async def timer(self, topic: str, key: str) -> Timer:
        """The timer of a key, with the state of its message. Raises `NotFound`, also about a day after it was done."""
        return await self._transport.send(Call("GET", _path(topic, key), _read))

    @api_pages
    def timers(self, topic: str) -> Call[Page[Timer]]:
        """The timers of a topic by key, page by page, including remembered ones whose message no longer waits."""
        path = f"/v1/topics/{part(topic)}/timers"
        return paged(path, {}, lambda document: map(Timer.read, document["timers"]))

    @api_call
    async def cancel_timer(
        self, topic: str, key: str, *, match: int | None = None
    ) -> Literal["cancelled", "suppressed"]:
        """Cancels the message of a key; once this returns, it will never be delivered. Raises `TooLate`, `Changed`,
        `NotFound`."""
        return await self._transport.send(Call("DELETE", _path(topic, key), cancelled, headers=condition(match)))

    @api_call
    async def cancel_key(self, topic: str, key: str) -> dict[str, int]:
        """Cancels all waiting messages of a key, its timer's too; returns how many, and how many were too late."""
        return await self._call("DELETE", f"/v1/topics/{part(topic)}/messages", params={"key": key})


def condition(match: int | None) -> dict[str, str] | None:
    """The headers that demand a revision; 0: that there is none; None: no headers."""
    if match is None:
        return None
    return {"If-Match": f'"{match}"'} if match else {"If-None-Match": "*"}


def cancelled(reply: Reply) -> Literal["cancelled", "suppressed"]:
    """Reads why a message will never be delivered; `suppressed`: its guard had ended it."""
    return "suppressed" if reply.document.get("result") == "suppressed" else "cancelled"


def _path(topic: str, key: str) -> str:
    return f"/v1/topics/{part(topic)}/timers/{part(key)}"


def _read(reply: Reply) -> Timer:
    return Timer.read(reply.document)
