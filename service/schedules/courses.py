"""Turns a schedule's specification into what the store needs: its fire times, and its messages with their headers."""

from collections.abc import Mapping
from functools import lru_cache, partial

import msgspec
import structlog
from msgspec import Raw

from ...store.content import BYTES, LABELS, builder
from ...store.schedules.course import Course, Post
from ..durations import format_time
from ..trace_context import carrying
from .rule import judge
from .spec import Spec, WrongSpec, plan_of, read_spec

NAME, FIRE_AT = "tarry-schedule", "tarry-fire-at"
"""Headers that each message of a schedule has."""

_KNOWN = 50_000
"""The most schedules that are cached after parsing. With more, schedules that fire in turn are parsed anew each
time."""

_made = builder(Post, LABELS, ("headers", "content_type", "body"))
log = structlog.get_logger()


@lru_cache(_KNOWN)
def course_of(name: str, text: bytes, made_at: int) -> Course | None:
    """The course of a schedule that was accepted. None, and a line in the log, if the zone data does not know its zone
    any more, or the row was overwritten from outside."""
    try:
        plan = plan_of(name, text, made_at)
    except WrongSpec as error:
        log.error("schedule_unreadable", schedule=name, error=f"{error.pointer}: {error}")
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.error("schedule_unreadable", schedule=name, error=str(error))
        return None
    spec, rule = read_spec(text), plan.rule
    return Course(
        rule.after,
        rule.due,
        partial(judge, rule, plan.misfire),
        partial(_post, name, spec),
        spec.group,
        spec.overlap == "queue_one",
    )


def traced(trace: Mapping[str, str], post: Post) -> Post:
    """Adds the caller's trace to a message that is sent on request; messages of fire times have none."""
    headers = carrying(msgspec.json.decode(post.headers or b"{}", type=dict[str, str]), trace)
    return msgspec.structs.replace(post, headers=headers)


def _post(name: str, spec: Spec, fire_at: int) -> Post:
    headers = (spec.headers or {}) | {NAME: name, FIRE_AT: format_time(fire_at)}
    if isinstance(spec.body, Raw):
        content_type, body = None, bytes(spec.body)
    else:
        content_type, body = spec.content_type or BYTES, spec.body_base64 or b""
    return _made(spec, msgspec.json.encode(headers), content_type, body)
