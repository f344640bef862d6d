"""The topics of the campaign, and the first line of the history, which describes them to the checker."""

from typing import Any

LADDER = [100, 100, 100, 150, 150, 150, 150, 150, 200, 200, 200, 200, 200, 250, 250, 300]
"""Milliseconds by rung: sixteen rungs, as by default, but in under three seconds."""
SHORT = [100, 200, 300]
"""The ladder of the ordered topic, where a failed message holds up its key."""

ORDERS, ACCOUNTS, TICKS = "orders", "accounts", "ticks"
QUEUES = 2
OPERATED = "audit"
"""The group whose cursor is moved and whose dead letters are redriven."""

LATE_MS = 60_000
"""How late a first hand-out may be, outages aside: a backlog after an outage is handed out within a minute."""

CLOCKWORK = "clockwork"
GROUPS: dict[str, list[str]] = {ORDERS: ["billing", "mails", OPERATED], ACCOUNTS: ["ledger"], TICKS: [CLOCKWORK]}

SCHEDULES: dict[str, tuple[int, dict[str, Any]]] = {
    "tick": (2000, {}),
    "shy": (3000, {"overlap": "skip", "group": CLOCKWORK}),
}
"""The schedules of the topic of ticks: milliseconds between fire times, and further settings."""


def ladder_of(topic: str) -> list[int]:
    return SHORT if topic == ACCOUNTS else LADDER


def setup() -> dict[str, Any]:
    """The facts that the checker must know."""
    return {
        "late_ms": LATE_MS,
        "topics": {
            topic: {
                "ordered": topic == ACCOUNTS,
                "scheduled": topic == TICKS,
                "groups": {group: {"ladder": ladder_of(topic), "operated": group == OPERATED} for group in groups},
            }
            for topic, groups in GROUPS.items()
        },
    }
