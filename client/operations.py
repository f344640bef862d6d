"""The calls for operators: on topics, groups and dead letters, and the search for messages."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from . import arguments
from .arguments import given
from .bodies import encode
from .calling import Calling
from .calls import Call, Page, document_of, group_path, paged, part
from .durations import instant_in, instant_out
from .fronts import api_call, api_pages
from .records import DeadLetter, Erased, Message, Named, id_of

_PATIENCE = 25.0
"""Seconds that the server may take for one call: it stops after 20."""
_SCAN = 60.0
"""Seconds that the server may take to check that no message waits."""

OnProgress = Callable[[int], object]
"""Called with the number done so far."""


class OperatorCalls(Calling):
    """The calls for operators, of both fronts."""

    @api_pages
    def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        state: Literal["scheduled", "published", "cancelled", "suppressed", "claimed", "retrying", "parked", "dead"]
        | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
    ) -> Call[Page[dict[str, Any]]]:
        """The messages of a topic, of a key, or in a state, due from `start` to before `end`, page by page.

        Without key and state: all waiting messages, the next due first, and all in the stream, the newest first, some
        of each at a time.
        """
        search = {"topic": topic, "key": key, "state": state, **_range(start, end)}
        return paged("/v1/messages", search, lambda document: document["messages"])

    @api_pages
    def dead(self, topic: str, group: str) -> Call[Page[DeadLetter]]:
        """All dead letters of a group, page by page."""
        return _dead(topic, group)

    @api_pages
    def dead_letters(
        self,
        topic: str,
        group: str,
        *,
        key: str | None = None,
        reason: str | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
    ) -> Call[Page[DeadLetter]]:
        """Dead letters with this key, with this text in their last reason, that died from `start` to before `end`."""
        return _dead(topic, group, key=key, reason=reason, **_range(start, end))

    @api_call
    async def seek(
        self, topic: str, group: str, to: datetime | str | int, *, queue: int | None = None, dry_run: bool = False
    ) -> dict[int, int]:
        """Moves a group to `"earliest"`, `"latest"`, a time or an offset (of `queue`); returns the offset by queue.

        Its open claims are closed first: acking one afterwards raises `LeaseLost`.
        """
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
        content = encode({"to": target, "dry_run": dry_run})
        call = Call("POST", f"{group_path(topic, group)}/seek", document_of, content, wait=_PATIENCE)
        document = await self._transport.send(call)
        return {place["queue"]: place["offset"] for place in document["queues"]}

    @api_call
    async def replay(
        self,
        topic: str,
        group: str,
        start: datetime | str | int,
        end: datetime | str | int | None = None,
        *,
        queue: int | None = None,
        name: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Gives one group a range of the stream once more, from `start` to before `end`; returns how many messages.

        If it is interrupted, the same call goes on where it stopped. Several calls with the same `name`, over rising
        ranges of offsets of one `queue`, do so too: offsets that the name has passed are not given again.
        """
        request = {"from": _place(start), "to": _place(end), "queue": queue, "dry_run": dry_run, "name": name}
        # Not tried again by itself: a call that was done in full would be done twice.
        return await self._worked(f"{group_path(topic, group)}/replay", request, "replayed", on_progress, once=True)

    @api_call
    async def redrive(
        self,
        topic: str,
        group: str,
        ids: Iterable[Named] | None = None,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        key: str | None = None,
        tag: str | None = None,
        reason: str | None = None,
        rate: int | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Gives dead letters back to their group, all, or those that match the arguments; returns how many.

        `reason` is that of the last attempt; with `*` at its end, its beginning. `rate` is the most per second.
        An exception in `on_progress` stops it; letters already redriven stay redriven.
        """
        which = _letters(ids, start, end, key, tag, reason)
        path = f"{group_path(topic, group)}/dead/redrive"
        return await self._worked(path, which | {"rate": rate, "dry_run": dry_run}, "redriven", on_progress)

    @api_call
    async def purge(
        self,
        topic: str,
        group: str,
        ids: Iterable[Named] | None = None,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        key: str | None = None,
        tag: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Removes dead letters for good, all, or those that match, as with `redrive`; returns how many."""
        which = _letters(ids, start, end, key, tag, reason)
        path = f"{group_path(topic, group)}/dead/purge"
        return await self._worked(path, which | {"dry_run": dry_run}, "purged", on_progress)

    async def _worked(
        self, path: str, request: Mapping[str, Any], what: str, on_progress: OnProgress | None, *, once: bool = False
    ) -> int:
        """Repeats the call until all is done; returns how many. The server ends a call that takes long, and the next
        one goes on; stopping in between undoes nothing. Letters that die after the first call are left out."""
        count = 0
        asked = given(request)
        while True:
            call = Call("POST", path, document_of, encode(asked), wait=_PATIENCE, once=once)
            answer = await self._transport.send(call)
            count += int(answer[what])
            if on_progress is not None:
                on_progress(count)
            if not answer["more"]:
                return count
            asked |= {name: answer[name] for name in ("from", "to") if name in answer}

    @api_call
    async def erase(self, id: Named) -> Erased:  # noqa: A002 - the contract's word
        """Erases the content of a message: body, headers and why its attempts failed, in the store and, with the
        archive's next run, in the lake. Its `life` stays. Raises `Conflict` while it waits (cancel it first), and
        `NotFound`."""
        return Erased.read(await self._call("POST", f"/v1/messages/{part(id_of(id))}/erase"))

    @api_call
    async def pause(self, topic: str, group: str) -> dict[str, Any]:
        """Pauses a group: it hands out no messages until it is resumed. Timers, retries and acks go on.

        Other servers on the same database follow within a second. Raises `Conflict` for a broadcast topic.
        """
        return await self._call("POST", f"{group_path(topic, group)}/pause")

    @api_call
    async def resume(self, topic: str, group: str) -> dict[str, Any]:
        """Resumes a group that is paused; one that is not stays as it is."""
        return await self._call("POST", f"{group_path(topic, group)}/resume")

    @api_call
    async def delete_group(self, topic: str, group: str) -> None:
        """Removes a group for good: its position, retries and dead letters. Its claims end at once."""
        await self._call("DELETE", group_path(topic, group))

    @api_call
    async def delete_topic(self, topic: str, *, force: bool = False) -> None:
        """Removes a topic for good, with its groups and messages.

        Raises `Conflict` while messages wait or are unsettled; with `force` they are dropped.
        """
        params = {"force": "true"} if force else None
        call = Call("DELETE", f"/v1/topics/{part(topic)}", document_of, params=params, wait=_SCAN)
        await self._transport.send(call)


def _dead(topic: str, group: str, **search: str | None) -> Call[Page[DeadLetter]]:
    def read(document: dict[str, Any]) -> Iterator[DeadLetter]:
        for record in document["messages"]:
            message = Message.read(record, topic)
            yield DeadLetter(message, instant_in(record["dead_at"]), tuple(record["attempts"]))

    return paged(f"{group_path(topic, group)}/dead", search, read)


def _place(place: str | datetime | int | None) -> str | int | None:
    return place if place is None or isinstance(place, int) else instant_out(place, "start")


def _letters(
    ids: Iterable[Named] | None,
    start: str | datetime | None,
    end: str | datetime | None,
    key: str | None,
    tag: str | None,
    reason: str | None,
) -> dict[str, Any]:
    """The selection of dead letters, as the body of a request."""
    return {"ids": arguments.ids(ids), **_range(start, end), "key": key, "tag": tag, "reason": reason}


def _range(start: str | datetime | None, end: str | datetime | None) -> dict[str, str | None]:
    return {
        "from": None if start is None else instant_out(start, "start"),
        "to": None if end is None else instant_out(end, "end"),
    }
