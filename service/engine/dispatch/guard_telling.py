"""Reports a guard that holds its messages: a log line and an alarm now and then, and a line when it answers again."""

import structlog
import trio
from attrs import define, field

from ...alarm import Alarm
from ...clock import Clock
from ...durations import format_time
from ...metrics import Metrics

_REMIND = 60.0
"""Seconds between two lines, or alarms, about one guard that holds messages."""

log = structlog.get_logger()


@define
class _Told:
    """When it was last reported that a guard holds messages, and since when it has held them; trio's time."""

    at: float
    since: float


@define(eq=False)
class GuardTelling:
    _metrics: Metrics
    _alarm: Alarm
    _clock: Clock
    _told: dict[str, _Told] = field(factory=dict[str, _Told], init=False)

    def holds(self, name: str, why: str, waiting: int) -> None:
        self._metrics.guard_failed(name)
        now = trio.current_time()
        told = self._told.setdefault(name, _Told(float("-inf"), now))
        if now - told.at >= _REMIND:
            told.at = now
            log.warning("guard_holds", guard=name, because=why, waiting=waiting)
            at = format_time(self._clock.now())
            self._alarm.ring("guard_holds", at=at, guard=name, because=why, waiting=waiting)

    def answers(self, name: str, waiting: int) -> None:
        if (told := self._told.pop(name, None)) is not None:
            seconds = round(trio.current_time() - told.since, 1)
            log.info("guard_answers", guard=name, seconds=seconds, waiting=waiting)
