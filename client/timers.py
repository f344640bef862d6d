"""Timers by key: the calls. Pure."""

from typing import Literal

from .arguments import given
from .bodies import Dumps, written
from .calls import Call, Page, Reply, paged, part
from .durations import Duration, duration_out
from .records import Draft, Timer

Mode = Literal["replace", "keep", "debounce"]


def set_timer(
    topic: str,
    key: str,
    draft: Draft,
    json: Dumps | None,
    *,
    mode: Mode,
    max_wait: Duration | None,
    match: int | None,
    idempotency_key: str,
) -> Call[Timer]:
    """The timer. With a revision to `match` it is set only at this one; 0: only when none waits."""
    if draft.key is not None:
        raise ValueError("the timer's key is that of its message")
    longest = None if max_wait is None else duration_out(max_wait, "max_wait")
    more = given({"mode": mode, "max_wait": longest, "idempotency_key": idempotency_key})
    return Call("PUT", _path(topic, key), _read, written(draft, json, **more), headers=condition(match))


def timer(topic: str, key: str) -> Call[Timer]:
    """The timer, whether its message waits or not."""
    return Call("GET", _path(topic, key), _read)


def timers(topic: str) -> Call[Page[Timer]]:
    """All of a topic that are remembered, page by page."""
    return paged(f"/v1/topics/{part(topic)}/timers", {}, lambda told: (Timer.read(one) for one in told["timers"]))


def cancel_timer(topic: str, key: str, *, match: int | None) -> Call[Literal["cancelled", "suppressed"]]:
    """When its message will never be delivered; `suppressed`: its guard had ended it."""
    return Call("DELETE", _path(topic, key), _cancelled, headers=condition(match))


def condition(match: int | None) -> dict[str, str] | None:
    """The headers for a revision to match; 0: only when there is none."""
    if match is None:
        return None
    return {"If-Match": f'"{match}"'} if match else {"If-None-Match": "*"}


def _path(topic: str, key: str) -> str:
    return f"/v1/topics/{part(topic)}/timers/{part(key)}"


def _read(reply: Reply) -> Timer:
    return Timer.read(reply.document)


def _cancelled(reply: Reply) -> Literal["cancelled", "suppressed"]:
    return "suppressed" if reply.document.get("result") == "suppressed" else "cancelled"
