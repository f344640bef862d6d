"""The topics of the campaign, and the history's first line, which tells the checker of them."""

from typing import Any

LADDER = [100, 100, 100, 150, 150, 150, 150, 150, 200, 200, 200, 200, 200, 250, 250, 300]
"""Milliseconds by rung: sixteen, as by default, in under three seconds."""
SHORT = [100, 200, 300]
"""For the ordered topic, where what fails holds up its key."""

ORDERS, ACCOUNTS, TICKS = "orders", "accounts", "ticks"
QUEUES = 2
OPERATED = "audit"
"""The group whose cursor is moved, and whose letters are redriven."""

LATE_MS = 60_000
"""The latest first hand-out, outages aside: what has piled up behind one goes out within a minute."""

CLOCKWORK = "clockwork"
GROUPS: dict[str, list[str]] = {ORDERS: ["billing", "mails", OPERATED], ACCOUNTS: ["ledger"], TICKS: [CLOCKWORK]}

SCHEDULES: dict[str, tuple[int, dict[str, Any]]] = {
    "tick": (2000, {}),
    "shy": (3000, {"overlap": "skip", "group": CLOCKWORK}),
}
"""Of the topic of ticks: every so many milliseconds, and what else they are to be."""


def ladder_of(topic: str) -> list[int]:
    return SHORT if topic == ACCOUNTS else LADDER


def setup() -> dict[str, Any]:
    """What the checker must know."""
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
