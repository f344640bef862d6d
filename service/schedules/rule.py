"""When a schedule fires: computes its fire times from its cron expression or interval, start, end and jitter.

A fire time is what the rule says; the message is due then, or later by its jitter, which is the same on every server.
Times and durations are milliseconds, times since 1970.
"""

import zlib

from attrs import frozen

from ...store.schedules.course import Judgement
from .cron import Cron


@frozen
class Every:
    """An interval of elapsed time, independent of changes of the clocks."""

    interval: int
    since: int
    """The time from which intervals are counted."""
    first: int = 0
    """After how many intervals it fires first."""

    def after(self, ms: int) -> int:
        return self.since + max(self.first, (ms - self.since) // self.interval + 1) * self.interval


@frozen
class Rule:
    name: str
    times: Cron | Every
    starts_at: int | None = None
    """There is no fire time before it."""
    ends_at: int | None = None
    """There is no fire time after it."""
    jitter: int = 0

    def after(self, ms: int) -> int | None:
        """The first fire time later than this; None after the last."""
        if self.starts_at is not None:
            ms = max(ms, self.starts_at - 1)
        at = self.times.after(ms)
        return None if at is None or (self.ends_at is not None and at > self.ends_at) else at

    def upcoming(self, after: int, count: int, until: int | None = None) -> list[int]:
        """The next `count` fire times later than `after`, and not later than `until`."""
        found: list[int] = []
        while len(found) < count and (at := self.after(after)) is not None and (until is None or at <= until):
            found.append(at)
            after = at
        return found

    def due(self, fire_at: int) -> int:
        """When the message of a fire time is due, with its jitter."""
        if not self.jitter:
            return fire_at
        # CRC alone would give similar names similar values; multiplying spreads them.
        spread = zlib.crc32(b"%d" % fire_at, zlib.crc32(self.name.encode())) * 2654435761 & 0xFFFFFFFF
        return fire_at + spread * self.jitter // (1 << 32)


@frozen
class Misfire:
    """What happens to fire times that passed while all servers were down, or the store was away."""

    window: int = 60_000
    """Milliseconds by which a message may be late and is still sent for its fire time."""
    once: bool = True
    """Whether one message is sent for all fire times that are later than that; False: none is sent."""


def judge(rule: Rule, misfire: Misfire, fire_at: int, now: int) -> Judgement:
    """Decides what happens to a fire time whose message is due, and which fire time follows; that may be past as
    well."""
    late = now - rule.due(fire_at) > misfire.window
    following = rule.after(fire_at)
    if not late or following is None:
        return Judgement(misfire.once or not late, following)
    last = now if misfire.once else now - misfire.window - rule.jitter - 1
    next_at = rule.after(max(fire_at, last))
    return Judgement(misfire.once, next_at, None if next_at == following else last + 1)
