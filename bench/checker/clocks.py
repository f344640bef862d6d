"""The time that the store's clock may have shown at a time of the harness's clock, since faults may step the store's.

A fault's `ahead_ms` says how far the store's clock is ahead of the harness's from then on. Between its begin and its
end, when all nodes follow, some nodes use the old time and some the new.
"""

from attrs import define, field

from .event import Event

NEVER = float("inf")


@define
class _Span:
    """When a node may have used the clock while it was `ahead` milliseconds ahead, by the harness's clock."""

    begin: float
    end: float
    ahead: float


@define
class Clocks:
    """Converts times of the harness to times of the store; `reached` converts the other way."""

    _spans: list[_Span] = field(factory=lambda: [_Span(-NEVER, NEVER, 0)])
    last_ms: float = 0
    """The time of the last event."""

    def add(self, event: Event) -> None:
        """Takes the begin or the end of a fault, which may be a step of the store's clock."""
        if "ahead_ms" not in event.facts:
            return
        if event.phase == "invoke":
            self._spans.append(_Span(event.wall_ms, NEVER, event.facts["ahead_ms"]))
        elif len(self._spans) > 1:
            self._spans[-2].end = event.wall_ms

    def hear(self, event: Event) -> None:
        """Takes any event, to note the time."""
        self.last_ms = max(self.last_ms, event.wall_ms)

    def most(self, since: float, at: float) -> float:
        """The latest time that any node may have seen on the store's clock from `since` to `at`."""
        shown = (min(at, span.end) + span.ahead for span in self._spans if span.begin <= at and span.end >= since)
        return max(shown)

    def ahead_most(self, event: Event) -> float:
        """How far the store's clock was ahead at most at this event."""
        return self.most(event.wall_ms, event.wall_ms) - event.wall_ms

    def least(self, at: float) -> float:
        """The earliest time that any node may have seen on the store's clock at that moment."""
        return at + min(span.ahead for span in self._spans if span.begin <= at <= span.end)

    def reached(self, time: float, at: float) -> float:
        """The harness's time at which the store's clock came to show `time`, and no less from then up to `at`, for the
        node that saw it last."""
        until = at
        for number in reversed(range(len(self._spans))):
            span = self._spans[number]
            begin = self._spans[number - 1].end if number else -NEVER
            if begin > until:
                continue  # this step came later
            if time > until + span.ahead:
                return until  # only the next step made the clock reach it
            if time >= begin + span.ahead:
                return time - span.ahead
            until = begin
        return until
