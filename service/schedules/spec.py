"""The specification of a schedule, stored as the user wrote it, and parsed into its rule.

It is JSON, with times and durations in any of their forms, so that users read back exactly what they wrote.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import msgspec
from attrs import frozen
from msgspec import UNSET, UnsetType

from ..durations import parse_duration, parse_time
from .cron import Cron, check
from .rule import Every, Misfire, Rule
from .zones import zone_named

SHORTEST = 1000
"""Milliseconds of the shortest interval."""
_LONGEST = 10 * 366 * 86_400_000
_LOOKED_AT = 100
"""Fire times that are checked for how far they lie apart."""


class WrongSpec(ValueError):
    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(reason)
        self.pointer = pointer
        """The JSON pointer of the field."""


class Spec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a specification. The message's fields are those of a publish."""

    topic: str
    cron: str | None = None
    every: int | str | None = None
    timezone: str | None = None
    starts_at: str | None = None
    ends_at: str | None = None
    jitter: int | str | None = None
    overlap: Literal["allow", "skip", "queue_one"] | None = None
    group: str | None = None
    misfire: Literal["once", "skip"] | dict[str, int | str] | None = None
    body: msgspec.Raw | UnsetType = UNSET
    body_base64: bytes | None = None
    content_type: str | None = None
    key: str | None = None
    headers: dict[str, str] | None = None
    tag: str | None = None
    ordering_key: str | None = None


@frozen
class Plan:
    rule: Rule
    misfire: Misfire


read_spec = msgspec.json.Decoder(Spec).decode


@lru_cache(20_000)
def plan_of(name: str, text: bytes, made_at: int) -> Plan:
    """The plan of a schedule that was accepted. Raises WrongSpec if the zone data does not know its zone any more."""
    return plan(name, read_spec(text), made_at)


def plan(name: str, spec: Spec, made_at: int) -> Plan:
    """The plan of a specification; `made_at` is when the schedule was created, Unix milliseconds. Raises WrongSpec."""
    if (spec.cron is None) == (spec.every is None):
        raise WrongSpec("/cron", f"say cron or every, {'one of them' if spec.cron is None else 'not both'}")
    starts_at, ends_at = _time("/starts_at", spec.starts_at), _time("/ends_at", spec.ends_at)
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise WrongSpec("/ends_at", "it is before starts_at")
    jitter = _duration("/jitter", spec.jitter, 0) or 0
    rule = Rule(name, _times(spec, starts_at, made_at), starts_at, ends_at, jitter)
    found = rule.upcoming(made_at, _LOOKED_AT) if jitter else []
    if any(later - sooner <= jitter for sooner, later in pairwise(found)):
        raise WrongSpec("/jitter", "it is as long as the time between two fire times: make it shorter")
    return Plan(rule, _misfire(spec.misfire))


def check_overlap(spec: Spec) -> None:
    """Raises WrongSpec unless overlap and group go together."""
    looks = spec.overlap in ("skip", "queue_one")
    if looks and spec.group is None:
        kept = "left out" if spec.overlap == "skip" else "kept back"
        raise WrongSpec(
            "/group", f"overlap: {spec.overlap} wants the group whose unsettled message makes the next one be {kept}"
        )
    if spec.group is not None and not looks:
        raise WrongSpec("/group", 'it goes with "overlap": "skip" or "queue_one"')


def _times(spec: Spec, starts_at: int | None, made_at: int) -> Cron | Every:
    if spec.cron is not None:
        name = spec.timezone or "UTC"
        _told("/timezone", zone_named, name)
        _told("/cron", check, spec.cron)
        return Cron(spec.cron, name)
    if spec.timezone is not None:
        raise WrongSpec("/timezone", "it goes with cron: every counts the time that passes")
    interval = _duration("/every", spec.every, SHORTEST) or SHORTEST
    return Every(interval, made_at, 1) if starts_at is None else Every(interval, starts_at)


def _misfire(said: str | dict[str, int | str] | None) -> Misfire:
    if said is None or isinstance(said, str):
        return Misfire(once=said != "skip")
    if list(said) != ["catch_up"]:
        raise WrongSpec("/misfire", 'write "once", "skip" or {"catch_up": "1h"}')
    window = _duration("/misfire/catch_up", said["catch_up"], 0) or 0
    return Misfire(max(window, Misfire().window), once=False)


def _time(pointer: str, text: str | None) -> int | None:
    return None if text is None else _told(pointer, parse_time, text)


def _duration(pointer: str, value: int | str | None, least: int) -> int | None:
    if value is None:
        return None
    duration: int = _told(pointer, parse_duration, value)
    if not least <= duration <= _LONGEST:
        raise WrongSpec(
            pointer, "it is longer than ten years" if duration > least else f"it is shorter than {least} ms"
        )
    return duration


def _told(pointer: str, read: Any, value: Any) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise WrongSpec(pointer, str(error)) from None
