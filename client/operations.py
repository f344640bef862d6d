"""What an operator does to a group, call by call: seek, replay, redrive, purge. Long ones are cut by the server, and go
on here until they are done; leaving in between stops them, and what is done stays done."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Literal

from .durations import instant_in, instant_out
from .paths import part
from .records import DeadLetter, Message
from .transport import Transport, encode

_PATIENCE = 25.0
"""Seconds that the server may take for one call: it stops after 20."""

OnProgress = Callable[[int], object]
"""Called with how many there were so far."""


class Operations:
    """The calls under /v1/topics/{topic}/groups/{group}."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _post(self, topic: str, group: str, verb: str, request: dict[str, Any], **how: Any) -> dict[str, Any]:
        content = encode({name: value for name, value in request.items() if value is not None})
        return self._transport.call("POST", f"{_path(topic, group)}/{verb}", content, wait=_PATIENCE, **how).document

    def seek(
        self, topic: str, group: str, to: str | datetime | int, *, queue: int | None, dry_run: bool
    ) -> dict[int, int]:
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
        answer = self._post(topic, group, "seek", {"to": target, "dry_run": dry_run})
        return {place["queue"]: place["offset"] for place in answer["queues"]}

    def replay(
        self,
        topic: str,
        group: str,
        start: str | datetime | int,
        end: str | datetime | int | None,
        *,
        queue: int | None,
        dry_run: bool,
        on_progress: OnProgress | None,
        name: str | None = None,
    ) -> int:
        """How many. A call is not tried again by itself: one that was done in full would be done twice."""
        request = {"from": _place(start), "to": _place(end), "queue": queue, "dry_run": dry_run}
        if name is not None:
            request["name"] = name
        count, more = 0, True
        while more:
            answer = self._post(topic, group, "replay", request, deadline=0.0)
            count, more = count + answer["replayed"], answer["more"]
            if on_progress is not None:
                on_progress(count)
        return count

    def letters(
        self,
        verb: Literal["redrive", "purge"],
        topic: str,
        group: str,
        ids: Iterable[str] | None,
        *,
        start: str | datetime | None,
        end: str | datetime | None,
        rate: int | None,
        dry_run: bool,
        on_progress: OnProgress | None,
    ) -> int:
        """How many. Letters that die after the first call are not meant."""
        request = {
            "ids": None if ids is None else list(ids),
            "from": None if start is None else instant_out(start, "start"),
            "to": None if end is None else instant_out(end, "end"),
            "rate": rate,
            "dry_run": dry_run,
        }
        count, more = 0, True
        while more:
            answer = self._post(topic, group, f"dead/{verb}", request)
            count, more = count + answer["redriven" if verb == "redrive" else "purged"], answer["more"]
            request["to"] = answer["to"]
            if on_progress is not None:
                on_progress(count)
        return count

    def dead(
        self,
        topic: str,
        group: str,
        *,
        key: str | None = None,
        reason: str | None = None,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
    ) -> Iterator[DeadLetter]:
        """Dead letters that fit, page by page."""
        search = {
            "key": key,
            "reason": reason,
            "from": None if start is None else instant_out(start, "start"),
            "to": None if end is None else instant_out(end, "end"),
        }
        params: dict[str, str | int] = {name: value for name, value in search.items() if value is not None}
        while True:
            page = self._transport.call("GET", f"{_path(topic, group)}/dead", params=params).document
            for record in page["messages"]:
                message = Message.read(record, topic)
                yield DeadLetter(message, instant_in(record["dead_at"]), tuple(record["attempts"]))
            if page.get("cursor") is None:
                return
            params["cursor"] = page["cursor"]

    def find(
        self,
        topic: str,
        *,
        key: str | None,
        state: str | None,
        start: str | datetime | None,
        end: str | datetime | None,
    ) -> Iterator[dict[str, Any]]:
        """Messages that fit, page by page."""
        search = {
            "topic": topic,
            "key": key,
            "state": state,
            "from": None if start is None else instant_out(start, "start"),
            "to": None if end is None else instant_out(end, "end"),
        }
        params: dict[str, str | int] = {name: value for name, value in search.items() if value is not None}
        while True:
            page = self._transport.call("GET", "/v1/messages", params=params).document
            yield from page["messages"]
            if page.get("cursor") is None:
                return
            params["cursor"] = page["cursor"]

    def clients(self) -> Iterator[dict[str, Any]]:
        """All clients, page by page."""
        params: dict[str, str | int] = {}
        while True:
            page = self._transport.call("GET", "/v1/clients", params=params).document
            yield from page["clients"]
            if page.get("cursor") is None:
                return
            params["cursor"] = page["cursor"]


def _path(topic: str, group: str) -> str:
    return f"/v1/topics/{part(topic)}/groups/{part(group)}"


def _place(place: str | datetime | int | None) -> str | int | None:
    return place if place is None or isinstance(place, int) else instant_out(place, "start")
