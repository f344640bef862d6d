"""Reads the lines of a file as messages, and tracks which lines have been published.

Errors and progress name lines of the file, not the requests in which they were sent.
"""

import base64
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, NoReturn, cast

import attrs

from ...client import BadRequest, Draft, Receipt, TarryError
from ...client.bodies import written
from ...store.content import LABELS
from ..durations import parse_duration, parse_time
from .printing import UsageError, note

_FIELDS = {field.name for field in attrs.fields(Draft)}
_TIMES = ("deliver_at", "expires_at")
_TEXTS = (*LABELS, "content_type", "guard", *_TIMES)
_PLACE = re.compile(r"/messages/(\d+)/?")


@attrs.define
class Lines:
    """Drafts from the lines of a file, in order, and which of them were answered."""

    source: Iterable[bytes]
    pattern: Draft
    """Provides the fields that a line leaves out."""
    first: int = 1
    published: int = 0
    _last: int = 0
    """The line number of the last published message."""
    _open: deque[int] = attrs.field(factory=deque[int])
    """Line numbers of messages that were passed on and not answered yet."""
    _reading: bool = True
    """Whether no request is under way, because the publisher waits for the next line."""
    _ended: bool = False

    def drafts(self) -> Iterator[Draft]:
        """A draft for each line. Raises `UsageError` with the number of a line that is not a message."""
        lines = enumerate(self.source, 1)
        for number, line in islice(lines, self.first - 1, None):
            if not line.strip():
                continue
            draft = _draft(number, line, self.pattern)
            self._open.append(number)
            self._reading = False
            yield draft
            self._reading = True
        self._reading, self._ended = False, True

    def answered(self, receipts: Sequence[Receipt]) -> None:
        """Notes that the next open lines were published."""
        for _ in receipts:
            self._last = self._open.popleft()
        self.published += len(receipts)

    def failed(self, error: BaseException) -> NoReturn:
        """Raises the error again, with its line and with what was published before it."""
        told = self._told(error)
        if isinstance(error, TarryError):
            error.args = (f"{self._by_line(str(error))}; {told}",)
            raise error
        if isinstance(error, UsageError):
            raise UsageError(f"{error}; {told}") from error
        if isinstance(error, ValueError | TypeError) and self._open:  # a value that JSON cannot hold
            raise UsageError(f"line {self._open[-1]}: {error}; {told}") from error
        note(told)
        raise error

    def _by_line(self, text: str) -> str:
        """A server's sentence, with the positions in the request replaced by line numbers."""
        places = list(self._open)
        return _PLACE.sub(lambda m: f"line {places[i]}: " if (i := int(m[1])) < len(places) else m[0], text, count=1)

    def _told(self, error: BaseException) -> str:
        sure = f"{self.published} of its messages were published (lines {self.first} to {self._last})"
        doubtful = list(self._open)[: None if self._ended else -1]  # the last one is part of the next request
        unknown = error.in_doubt if isinstance(error, TarryError) else isinstance(error, KeyboardInterrupt)
        if unknown and not self._reading and doubtful:
            begin, end = doubtful[0], doubtful[-1]
            known, more = (sure, " more") if self.published else ("none of its messages was answered", "")
            return (
                f"{known}, and up to {len(doubtful)}{more} may have been taken (lines {begin} to {end}): "
                f"go on with --from-line {begin}, or {end + 1} if they were"
            )
        if not self.published:
            return "nothing of it was published"
        mend = "mend it and " if isinstance(error, UsageError | BadRequest | ValueError | TypeError) else ""
        return f"{sure}: {mend}go on with --from-line {self._open[0] if self._open else self._last + 1}"


def check(source: Iterable[bytes], pattern: Draft, first: int) -> Iterator[int]:
    """Reads and checks all lines without keeping them, and yields the number of each. Raises `UsageError` for the first
    line that is not a message.

    Rules that only the server knows, such as its limits, are not checked.
    """
    for number, line in islice(enumerate(source, 1), first - 1, None):
        if line.strip():
            draft = _draft(number, line, pattern)
            try:
                written(draft, None)
            except (ValueError, TypeError) as error:
                raise UsageError(f"line {number}: {error}") from error
        yield number


def _draft(number: int, line: bytes, pattern: Draft) -> Draft:
    try:
        decoded = json.loads(line)
    except ValueError as error:
        raise UsageError(f"line {number} is not JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise UsageError(f'line {number} is not an object such as {{"body": ..., "key": ...}}')
    fields = cast("dict[str, Any]", decoded)
    try:
        if "body_base64" in fields:
            fields["body"] = base64.b64decode(fields.pop("body_base64"), validate=True)
    except (ValueError, TypeError) as error:
        raise UsageError(f"line {number}: body_base64: {error}") from error
    if "body" not in fields:
        raise UsageError(f"line {number} has no body")
    if unknown := fields.keys() - _FIELDS:
        names = ", ".join(sorted(unknown))
        raise UsageError(f"line {number}: unknown {names}; the fields are {', '.join(sorted(_FIELDS))}")
    if wrong := _wrong(fields):
        raise UsageError(f"line {number}: {wrong}")
    if isinstance(fields.get("delay"), int):  # a line is JSON, where a number is milliseconds, as over HTTP
        fields["delay"] = timedelta(milliseconds=fields["delay"])
    return attrs.evolve(pattern, **fields)


def _wrong(fields: dict[str, Any]) -> str | None:
    """What is wrong with a value of the wrong type or form, whatever the server's settings are; else None."""
    given = {name: value for name, value in fields.items() if value is not None and name != "body"}
    for name, value in given.items():
        if name in _TEXTS and not isinstance(value, str):
            return f"{name} is a text"
        if name == "queue" and (not isinstance(value, int) or isinstance(value, bool)):
            return "queue is a whole number"
        if name == "delay" and (not isinstance(value, str | int) or isinstance(value, bool)):
            return 'delay is a duration such as "10m", or milliseconds'
        if name == "headers" and not (
            isinstance(value, dict) and _are_texts(cast("dict[str, object]", value).values())
        ):
            return "headers are an object of texts"
        if name == "deliver_between" and not (isinstance(value, list) and _are_two_texts(cast("list[object]", value))):
            return "deliver_between is two times"
    if "delay" in given and (wrong := _unread(parse_duration, given["delay"])):
        return f"delay: {wrong}"
    times = [(name, given[name]) for name in _TIMES if name in given]
    times += [("deliver_between", time) for time in given.get("deliver_between", ())]
    return next((f"{name}: {wrong}" for name, time in times if (wrong := _unread(parse_time, time))), None)


def _unread(read: Callable[[Any], object], value: Any) -> str | None:
    try:
        read(value)
    except ValueError as error:
        return str(error)
    return None


def _are_two_texts(values: list[object]) -> bool:
    return len(values) == 2 and _are_texts(values)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
