"""All pages by their addresses."""

from collections.abc import Mapping
from typing import NamedTuple

from .page import Place
from .pages import dead, groups, messages, nodes, overview, reports, schedules, settings, timers, topics

HOME = "/ui"

PLACES: tuple[Place, ...] = (
    Place(HOME, overview.overview),
    Place(f"{HOME}/pictures", overview.pictures),
    Place(f"{HOME}/topics", topics.topics),
    Place(f"{HOME}/topics/{{topic}}", topics.topic, {"put": settings.put_topic}),
    Place(f"{HOME}/topics/{{topic}}/pictures", topics.topic_pictures),
    Place(f"{HOME}/topics/{{topic}}/timers", timers.timers),
    Place(f"{HOME}/groups", groups.groups),
    Place(
        f"{HOME}/groups/{{topic}}/{{group}}",
        groups.group,
        {"pause": groups.pause, "resume": groups.resume, "put": settings.put_group},
    ),
    Place(f"{HOME}/new", acts={"topic": settings.make_topic, "group": settings.make_group}),
    Place(f"{HOME}/messages", messages.messages),
    Place(
        f"{HOME}/messages/{{id}}",
        messages.message,
        {"cancel": messages.cancel, "move": messages.move, "again": messages.again},
    ),
    Place(f"{HOME}/schedules", schedules.schedules),
    Place(
        f"{HOME}/schedules/{{name}}",
        schedules.schedule,
        {
            "pause": schedules.pause,
            "resume": schedules.resume,
            "run": schedules.run,
            "backfill": schedules.backfill,
        },
    ),
    Place(f"{HOME}/dead", dead.dead),
    Place(f"{HOME}/dead/{{topic}}/{{group}}", dead.letters, {"redrive": dead.redrive, "purge": dead.purge}),
    Place(f"{HOME}/nodes", nodes.nodes),
    Place(f"{HOME}/reports", reports.reports),
)

NAVIGATION = (
    (HOME, "Overview"),
    (f"{HOME}/topics", "Topics"),
    (f"{HOME}/groups", "Groups"),
    (f"{HOME}/messages", "Messages"),
    (f"{HOME}/schedules", "Timers & schedules"),
    (f"{HOME}/dead", "Dead letters"),
    (f"{HOME}/nodes", "Nodes"),
    (f"{HOME}/reports", "Reports"),
)


class Found(NamedTuple):
    """What an address leads to."""

    place: Place
    parts: Mapping[str, str]
    act: str
    """The last part, where it is an action's; else empty."""


def find(segments: list[str]) -> Found | None:
    """By the decoded parts of a path."""
    for place in PLACES:
        pattern = place.path.split("/")[1:]
        if (parts := _match(pattern, segments)) is not None:
            return Found(place, parts, "")
        if segments and segments[-1] in place.acts and (parts := _match(pattern, segments[:-1])) is not None:
            return Found(place, parts, segments[-1])
    return None


def _match(pattern: list[str], segments: list[str]) -> Mapping[str, str] | None:
    if len(pattern) != len(segments):
        return None
    parts: dict[str, str] = {}
    for wanted, there in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            parts[wanted[1:-1]] = there
        elif wanted != there:
            return None
    return parts if all(parts.values()) else None
