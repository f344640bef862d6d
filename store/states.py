"""The life of a message, as a table: (state, event) -> state.

A state is a place, and a message moves by an insert and a delete in one transaction. By itself a message is scheduled,
published, cancelled or suppressed. Once published, it also has a state in each group, and begins there as `published`.
The words are those of the HTTP API, and the drawing in ARCHITECTURE.md is made from this table.

An operator may bring back a message that is still on its way in a group (`replayed`, `sought`). Then the message is in
that group twice, and each of the two moves by the table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from .records import Outcome

Own = Literal["scheduled", "published", "cancelled", "suppressed"]
"""The states of a message by itself."""
Standing = Literal["claimed", "retrying", "parked", "dead"]
"""Those states of a message in a group that messages can be searched by."""
Findable = Literal[Own, Standing]
"""All states that messages can be searched by."""
State = Literal[Findable, "returned", "acked", "skipped", "expired", "passed", "purged"]

STANDINGS: tuple[Standing, ...] = get_args(Standing)
FINDABLE: tuple[Findable, ...] = (*get_args(Own), *STANDINGS)

LIFE: Mapping[tuple[State | None, str], State] = MappingProxyType(
    {
        (None, "scheduled"): "scheduled",
        (None, "published"): "published",
        ("scheduled", "rescheduled"): "scheduled",
        ("scheduled", "cancelled"): "cancelled",
        ("scheduled", "suppressed"): "suppressed",  # its guard said no
        ("scheduled", "promoted"): "published",
        # In a group
        ("published", "claimed"): "claimed",
        ("published", "skipped"): "skipped",  # its tag was not asked for
        ("published", "parked"): "parked",  # behind a message of its key that comes back
        ("published", "expired"): "expired",  # past its expires_at, or removed by retention first
        ("claimed", "acked"): "acked",
        ("claimed", "failed"): "retrying",
        ("claimed", "lease_lost"): "retrying",
        ("claimed", "suspended"): "retrying",  # given back without counting an attempt
        ("claimed", "parked"): "parked",  # a message of its key before it went back
        ("claimed", "dead"): "dead",  # failed, or its lease was lost, on the last rung
        ("claimed", "expired"): "expired",  # it failed, and would have been expired when it came back
        ("retrying", "returned"): "returned",
        ("parked", "returned"): "returned",
        ("returned", "claimed"): "claimed",
        ("returned", "skipped"): "skipped",
        ("returned", "parked"): "parked",
        ("returned", "expired"): "expired",
        # What an operator does
        ("dead", "redriven"): "retrying",
        ("dead", "purged"): "purged",
        ("acked", "replayed"): "retrying",
        ("skipped", "replayed"): "retrying",
        ("passed", "replayed"): "retrying",
        ("purged", "replayed"): "retrying",
        ("published", "passed"): "passed",  # the group sought past it
        ("claimed", "passed"): "passed",
        ("claimed", "released"): "retrying",  # a retry, when the group sought elsewhere: a seek does not repeat retries
        ("claimed", "sought"): "published",
        ("acked", "sought"): "published",
        ("skipped", "sought"): "published",
        ("passed", "sought"): "published",
        ("purged", "sought"): "published",
    }
)

ENDS: Mapping[Outcome, str] = MappingProxyType(
    {
        Outcome.ACKED: "acked",
        Outcome.ACKED_OUTSIDE: "acked",
        Outcome.RETRIED: "failed",
        Outcome.LOST: "lease_lost",
        Outcome.DEAD: "dead",
        Outcome.LOST_DEAD: "dead",
        Outcome.SUSPENDED: "suspended",
        Outcome.EXPIRED: "expired",
        Outcome.RELEASED: "released",
        Outcome.PARKED: "parked",
        Outcome.SKIPPED: "skipped",
    }
)
"""The event by which a message left its claim, or was passed over by it."""

AFTER: Mapping[Outcome, State] = MappingProxyType(
    {outcome: LIFE.get(("claimed", event)) or LIFE["published", event] for outcome, event in ENDS.items()}
)
"""The state that each outcome leads to."""
