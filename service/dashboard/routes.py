"""The table of all pages by their addresses."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..http.router import Router
from .page import Route
from .pages import dead, groups, messages, nodes, overview, reports, schedules, settings, timers, topics

HOME = "/ui"

ROUTES: tuple[Route, ...] = (
    Route(HOME, overview.overview),
    Route(f"{HOME}/pictures", overview.pictures),
    Route(f"{HOME}/topics", topics.topics),
    Route(f"{HOME}/topics/{{topic}}", topics.topic, {"put": settings.put_topic}),
    Route(f"{HOME}/topics/{{topic}}/pictures", topics.topic_pictures),
    Route(f"{HOME}/topics/{{topic}}/timers", timers.timers),
    Route(f"{HOME}/groups", groups.groups),
    Route(
        f"{HOME}/groups/{{topic}}/{{group}}",
        groups.group,
        {"pause": groups.pause, "resume": groups.resume, "put": settings.put_group},
    ),
    Route(f"{HOME}/new", acts={"topic": settings.make_topic, "group": settings.make_group}),
    Route(f"{HOME}/messages", messages.messages),
    Route(
        f"{HOME}/messages/{{id}}",
        messages.message,
        {"cancel": messages.cancel, "move": messages.move, "again": messages.again},
    ),
    Route(f"{HOME}/schedules", schedules.schedules),
    Route(
        f"{HOME}/schedules/{{name}}",
        schedules.schedule,
        {"pause": schedules.pause, "resume": schedules.resume, "run": schedules.run, "backfill": schedules.backfill},
    ),
    Route(f"{HOME}/dead", dead.dead),
    Route(f"{HOME}/dead/{{topic}}/{{group}}", dead.letters, {"redrive": dead.redrive, "purge": dead.purge}),
    Route(f"{HOME}/nodes", nodes.nodes),
    Route(f"{HOME}/reports", reports.reports),
)


class Found(NamedTuple):
    """The page that an address leads to, and the action."""

    place: Route
    parts: Mapping[str, str]
    act: str
    """The last part of the address, if it names an action; else empty."""


_router = Router[tuple[Route, str]]()
for _route in ROUTES:
    for _act in ("", *_route.acts):
        _router.add(f"{_route.path}/{_act}".rstrip("/"), "", (_route, _act))


def find(segments: Sequence[str]) -> Found | None:
    _, found, parts = _router.find(segments)
    return next((Found(place, parts, act) for place, act in found.values()), None)
