"""What the history was made on: its topics, their groups, and how much may be asked of them."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, convert


class Group(Struct, frozen=True):
    """A consumer group. `operated`: an operator moved its cursor or redrove letters, so anything may come again."""

    ladder: list[int]
    """Milliseconds by rung."""
    operated: bool = False


class Topic(Struct, frozen=True):
    groups: dict[str, Group]
    ordered: bool = False
    scheduled: bool = False
    """Its messages are those of schedules."""


class Setup(Struct, frozen=True):
    topics: dict[str, Topic]
    late_ms: int = 60_000
    """No first hand-out is later than this, not counting what was outage."""
    slack_ms: int = 5_500
    """By how much a node's clock may be behind the store's: its samples are doubted from 5 s on, not before."""


def setup_of(facts: Mapping[str, Any]) -> Setup:
    return convert(facts, Setup)
