"""The pace of promotion: how many messages a second it brings, of late, when there is enough to do."""

from attrs import define, field

_ENOUGH = 100
"""Messages in one transaction: of fewer its fixed cost is most of what it takes."""
_WEIGHT = 0.2
"""Of the newest."""


@define
class Pace:
    """The pace of the last larger transactions, the newest counting most."""

    per_s: float | None = field(default=None, init=False)
    """None: there was none yet."""

    def note(self, messages: int, seconds: float) -> None:
        """So many messages took a transaction so long."""
        if messages >= _ENOUGH and seconds > 0:
            per_s = messages / seconds
            self.per_s = per_s if self.per_s is None else self.per_s + _WEIGHT * (per_s - self.per_s)
