"""The setup of a history: its topics, their groups, and how late the service may be."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, convert


class Group(Struct, frozen=True):
    """A consumer group. `operated`: an operator moved its cursor or redrove letters, so any message may come again."""

    ladder: list[int]
    """Milliseconds by rung."""
    operated: bool = False


class Topic(Struct, frozen=True):
    groups: dict[str, Group]
    ordered: bool = False
    scheduled: bool = False
    """Whether schedules publish its messages."""


class Setup(Struct, frozen=True):
    topics: dict[str, Topic]
    late_ms: int = 60_000
    """How late a first hand-out may be, without the time of outages."""
    slack_ms: int = 5_500
    """How far a node's clock may be behind the store's: a node doubts its samples only from 5 s on."""


def setup_of(facts: Mapping[str, Any]) -> Setup:
    return convert(facts, Setup)
