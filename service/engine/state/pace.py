"""The pace of promotion: how many messages a second the last larger transactions have promoted."""

from attrs import define, field

_ENOUGH = 100
"""Messages of a transaction that is measured, at least: a smaller one spends most of its time on fixed costs."""
_WEIGHT = 0.2
"""The weight of the newest transaction."""


@define
class Pace:
    """The pace of the last larger transactions, the newest counting most."""

    per_s: float | None = field(default=None, init=False)
    """None before the first one."""

    def note(self, messages: int, seconds: float) -> None:
        """Notes a transaction that took so long for so many messages."""
        if messages >= _ENOUGH and seconds > 0:
            per_s = messages / seconds
            self.per_s = per_s if self.per_s is None else self.per_s + _WEIGHT * (per_s - self.per_s)
