"""The rows of a consumer group that a turn holds locked: its cursors, and the claims that are being settled."""

from attrs import define, field

from ..records import Outcome

_COUNTED = {
    Outcome.ACKED: "acked",
    Outcome.RETRIED: "retried",
    Outcome.LOST: "retried",
    Outcome.SUSPENDED: "retried",
    Outcome.DEAD: "dead",
    Outcome.LOST_DEAD: "dead",
    Outcome.EXPIRED: "expired",
    Outcome.PARKED: "parked",
    Outcome.SKIPPED: "skipped",
}


@define
class CursorRow:
    """A cursor row under its lock."""

    queue_id: int
    position: int
    next_claim: int
    next_delivery: int
    acked: int
    dead: int
    retried: int
    expired: int
    skipped: int
    parked: int

    def take_claim_number(self) -> int:
        self.next_claim += 1
        return self.next_claim - 1

    def take_delivery_number(self) -> int:
        self.next_delivery += 1
        return self.next_delivery - 1

    def tell(self, outcome: Outcome, times: int = 1) -> None:
        counter = _COUNTED[outcome]
        setattr(self, counter, getattr(self, counter) + times)


@define
class ClaimRow:
    """A claim row under its lock."""

    queue_id: int
    number: int
    token: int
    client: str
    first: int
    size: int
    claimed_at: int
    lease_until: int
    outcome: bytearray = field(converter=bytearray)
    settled_at: bytearray = field(converter=bytearray)
    changed: bool = False

    @property
    def ended(self) -> bool:
        return Outcome.OPEN not in self.outcome

    def settle(self, place: int, outcome: Outcome, now: int) -> None:
        self.outcome[place] = outcome
        self.settled_at[8 * place : 8 * place + 8] = now.to_bytes(8, "big")
        self.changed = True

    def settle_all(self, outcome: Outcome, now: int) -> None:
        self.outcome[:] = bytes([outcome]) * self.size
        self.settled_at[:] = now.to_bytes(8, "big") * self.size
        self.changed = True
