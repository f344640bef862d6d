"""Waits until everything that is due is handled: no overdue message waits, and no group has open messages."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice

from ..client.tarry import Tarry

_PAUSE = 0.01
"""Seconds of real time between two looks."""


class NotDrained(TimeoutError):
    """Something is still open; the text says what."""


def wait_until_idle(tarry: Tarry, now: Callable[[], datetime], timeout: float) -> None:
    """Waits until two looks in a row have found nothing open. Raises `NotDrained`."""
    until = time.monotonic() + timeout
    quiet = 0
    while quiet < 2:
        left = list(islice(_open(tarry, now()), 5))
        quiet = 0 if left else quiet + 1
        if left and time.monotonic() > until:
            raise NotDrained(f"after {timeout:g} s there is still: {'; '.join(left)}")
        time.sleep(_PAUSE if left else 0)


def _open(tarry: Tarry, now: datetime) -> Iterator[str]:
    for each in tarry.topics():
        topic = each["topic"]
        for message in tarry.find(topic, state="scheduled", end=now):
            yield f"message {message['id']} of {topic} is due and not handed out"
        for group in tarry.topic(topic)["groups"]:
            name = group if isinstance(group, str) else group["group"]
            state = tarry.group(topic, name)
            if open_ := {what: state[what] for what in ("backlog", "claimed") if state.get(what)}:
                yield f"group {name} of {topic} has {open_}"
        for message in tarry.find(topic, state="retrying", end=now):
            yield f"message {message['id']} of {topic} is due again after a failure"
