"""Topics and groups that a command reads: they are there, since a slip of the keys is no wish for a new one."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from ...client import NotFound, Tarry


def demand_topic(tarry: Tarry, topic: str) -> dict[str, Any]:
    """The topic, as the server tells it. Raises `NotFound` with the nearest name."""
    try:
        return tarry.topic(topic)
    except NotFound:
        names = (str(record.get("topic") or record.get("name")) for record in tarry.topics())
        raise NotFound(f'there is no topic "{topic}"{_near(topic, names)}; publishing makes one') from None


def demand_group(tarry: Tarry, topic: str, group: str) -> None:
    """Raises `NotFound` for a topic or a group that is not there, with the nearest name."""
    try:
        tarry.group(topic, group)
    except NotFound:
        names = (str(record["group"]) for record in demand_topic(tarry, topic)["groups"])
        near = _near(group, names)
        raise NotFound(f'{topic} has no group "{group}"{near}; --from earliest or --from latest makes one') from None


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), 1)
    return f' (did you mean "{near[0]}"?)' if near else ""
