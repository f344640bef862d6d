"""What the store's clock may have shown, by the harness's: it is the one that counts, and a fault may have stepped it.

A step is told with `ahead_ms`, by how much the store's clock is ahead of the harness's from then on. Between its begin
and its end, when all nodes follow, some go by the old time and some by the new.
"""

from attrs import define, field

from .event import Event

NEVER = float("inf")


@define
class _Span:
    """When somebody may have gone by the clock that was so far ahead; milliseconds of the harness's clock."""

    begin: float
    end: float
    ahead: float


@define
class Clocks:
    """Times go in as the harness's, and come out as the store's, but for `reached`."""

    _spans: list[_Span] = field(factory=lambda: [_Span(-NEVER, NEVER, 0)])
    last_ms: float = 0
    """When the last event was heard."""

    def add(self, event: Event) -> None:
        """The begin or the end of a fault, perhaps a step of the store's clock."""
        if "ahead_ms" not in event.facts:
            return
        if event.phase == "invoke":
            self._spans.append(_Span(event.wall_ms, NEVER, event.facts["ahead_ms"]))
        elif len(self._spans) > 1:
            self._spans[-2].end = event.wall_ms

    def hear(self, event: Event) -> None:
        """Any event."""
        self.last_ms = max(self.last_ms, event.wall_ms)

    def most(self, since: float, at: float) -> float:
        """The latest that it has shown to anybody from `since` to `at`."""
        shown = (min(at, span.end) + span.ahead for span in self._spans if span.begin <= at and span.end >= since)
        return max(shown)

    def ahead_most(self, event: Event) -> float:
        """By how much it was ahead at most."""
        return self.most(event.wall_ms, event.wall_ms) - event.wall_ms

    def least(self, at: float) -> float:
        """The earliest that it showed to anybody at that moment."""
        return at + min(span.ahead for span in self._spans if span.begin <= at <= span.end)

    def reached(self, time: float, at: float) -> float:
        """When it came to show `time`, by the harness's clock, and has not shown less since, up to `at`; the latest
        moment that this may have been for anybody."""
        until = at
        for number in reversed(range(len(self._spans))):
            span = self._spans[number]
            begin = self._spans[number - 1].end if number else -NEVER
            if begin > until:
                continue  # a step that came later
            if time > until + span.ahead:
                return until  # behind it: so it was the step
            if time >= begin + span.ahead:
                return time - span.ahead
            until = begin
        return until
