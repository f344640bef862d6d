"""When a schedule fires: its cron expression or its interval, from when, until when, and how far it is spread.

A fire time is what the rule says; a message is due then, or later by its jitter, which is the same whoever works it
out. Times and durations are milliseconds, times since 1970.
"""

import zlib

from attrs import frozen

from ...store.schedules.course import Judgement
from .cron import Cron


@frozen
class Every:
    """An interval: the time that passes, whatever clocks are set to."""

    interval: int
    since: int
    """What it is counted from."""
    first: int = 0
    """How many intervals after that it comes first."""

    def after(self, ms: int) -> int:
        """The first time later than this."""
        return self.since + max(self.first, (ms - self.since) // self.interval + 1) * self.interval


@frozen
class Rule:
    """A schedule's times."""

    name: str
    times: Cron | Every
    starts_at: int | None = None
    """No fire time before this one."""
    ends_at: int | None = None
    """None after it."""
    jitter: int = 0

    def after(self, ms: int) -> int | None:
        """The first fire time later than this; None after the last."""
        if self.starts_at is not None:
            ms = max(ms, self.starts_at - 1)
        at = self.times.after(ms)
        return None if at is None or (self.ends_at is not None and at > self.ends_at) else at

    def upcoming(self, after: int, count: int, until: int | None = None) -> list[int]:
        """The next so many fire times later than `after`, and not later than `until`."""
        found: list[int] = []
        while len(found) < count and (at := self.after(after)) is not None and (until is None or at <= until):
            found.append(at)
            after = at
        return found

    def due(self, fire_at: int) -> int:
        """When the message of a fire time is due."""
        if not self.jitter:
            return fire_at
        # One hash alone would have the neighbours of a name near it.
        spread = zlib.crc32(b"%d" % fire_at, zlib.crc32(self.name.encode())) * 2654435761 & 0xFFFFFFFF
        return fire_at + spread * self.jitter // (1 << 32)


@frozen
class Misfire:
    """What becomes of fire times that nobody was there for: all servers were down, or the store was away."""

    window: int = 60_000
    """So late messages are sent, each."""
    once: bool = True
    """Of what is later one message is sent for all; False: none."""


def judge(rule: Rule, misfire: Misfire, fire_at: int, now: int) -> Judgement:
    """What becomes of a fire time whose message is due, and which comes next: that may be past as well."""
    late = now - rule.due(fire_at) > misfire.window
    following = rule.after(fire_at)
    if not late or following is None:
        return Judgement(misfire.once or not late, following)
    last = now if misfire.once else now - misfire.window - rule.jitter - 1
    next_at = rule.after(max(fire_at, last))
    return Judgement(misfire.once, next_at, None if next_at == following else last + 1)
