"""The settings of topics and groups: shows them beside the defaults, and has the forms that create and change them."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from ...durations import format_duration
from ..api import Refused, part
from ..forms import Field, Form, plain, rests, share, span, whole
from ..page import Elsewhere, Part
from ..visit import Visit
from ..words import duration, ladder

_UNLIMITED = "no limit"


def topic_card(visit: Visit, told: Mapping[str, Any], done: str = "") -> dict[str, Any]:
    return _card(visit, told, topic_form(told), done)


def group_card(visit: Visit, told: Mapping[str, Any], done: str = "") -> dict[str, Any]:
    return _card(visit, told, group_form(told), done)


def _card(visit: Visit, told: Mapping[str, Any], form: Form, done: str) -> dict[str, Any]:
    may = visit.visitor.may("operate", told["topic"])
    return {"told": told, "form": form.fresh() if may else None, "done": done, "topic_name": told["topic"]}


def topic_form(told: Mapping[str, Any]) -> Form:
    """The form for the settings of a topic that may be changed."""
    defaults, name = told["defaults"], told["topic"]
    own = None if told["ladder"] is None else told
    fields = (
        *(() if told["ordered"] else (Field("queues", "Queues", str(told["queues"]), whole, "can only grow"),)),
        Field(
            "retention",
            "Retention",
            "" if told["retention"] is None else format_duration(told["retention"]),
            span,
            f"such as 30d; empty: the server's, {duration(defaults['retention'])}",
        ),
        *_ladder_fields(own, f"the server's, {ladder(defaults['ladder'])}"),
        *(
            Field(field, label, "" if told[field] is None else str(told[field]), whole, f"empty: {_UNLIMITED}")
            for field, label in (
                ("max_pending", "Max pending"),
                ("max_rate", "Max rate, per second"),
                ("release_rate", "Release rate, per second"),
            )
        ),
        Field("sequencer", "Sequencer", told["sequencer"], plain, "redis: on MySQL", ("store", "redis")),
    )
    return Form("settings", f"/ui/topics/{part(name)}/put", "Save", fields)


def group_form(told: Mapping[str, Any]) -> Form:
    """The form for the settings of a group that may be changed."""
    defaults = told["defaults"]
    own = told if told["ladder_of"] == "group" else None
    ordered = "queues" not in told or any("owner" in one for one in told["queues"])
    concurrency = "" if told["concurrency"] is None else str(told["concurrency"])
    ends = Field(
        "on_exhausted",
        "At the ladder's end",
        told["on_exhausted"],
        plain,
        "dead: a dead letter; block: its key waits",
        ("dead", "block"),
    )
    fields = (
        *_ladder_fields(own, f"the {defaults['ladder_of']}'s, {ladder(defaults['ladder'])}"),
        *((ends,) if ordered else ()),
        Field("concurrency", "Concurrency", concurrency, whole, f"empty: {_UNLIMITED}"),
    )
    return Form("settings", f"/ui/groups/{part(told['topic'])}/{part(told['group'])}/put", "Save", fields)


def _ladder_fields(own: Mapping[str, Any] | None, otherwise: str) -> tuple[Field, Field]:
    ladder = "" if own is None else ", ".join(map(format_duration, own["ladder"])) or "none"
    hint = f"rests, such as 1m, 5m; none: no retries; empty: {otherwise}"
    jitter = "" if own is None else f"{own['jitter']:g}"
    return (
        Field("ladder", "Ladder", ladder, rests, hint),
        Field(
            "jitter", "Jitter", jitter, share, "0 to 1: how much longer a rest may be, at random; goes with the ladder"
        ),
    )


def new_topic_form() -> Form:
    """The form for a new topic: the properties that stay for good, and its queues."""
    fields = (
        Field("name", "Name", hint="letters, digits, dots, underscores and hyphens"),
        Field("queues", "Queues", "1", whole),
        Field(
            "kind",
            "Kind",
            "cluster",
            plain,
            "ordered: messages of one ordering key one after the other",
            ("cluster", "ordered", "broadcast"),
        ),
    )
    return Form("new-topic", "/ui/new/topic", "Create", fields)


def new_group_form(topic: str) -> Form:
    fields = (
        Field("name", "Name", hint="letters, digits, dots, underscores and hyphens"),
        Field(
            "from",
            "It begins at",
            "earliest",
            plain,
            "what is there already, or what is still to come",
            ("earliest", "latest"),
        ),
    )
    return Form("new-group", "/ui/new/group", "Create", fields, {"topic": topic})


async def put_topic(visit: Visit) -> Part:
    return await _put(visit, f"/v1/topics/{part(visit.parts['topic'])}", topic_form, topic_card)


async def put_group(visit: Visit) -> Part:
    path = f"/v1/topics/{part(visit.parts['topic'])}/groups/{part(visit.parts['group'])}"
    return await _put(visit, path, group_form, group_card)


async def _put(visit: Visit, path: str, form_of: Callable[[Mapping[str, Any]], Form], card: Any) -> Part:
    """Saves the settings that were changed on the form."""
    told: Any = await visit.api.get(path)
    asked, form = form_of(told).typed(visit.sent).asked()
    if not form.first_wrong:
        try:
            if asked:
                await visit.api.ask("PUT", path, asked)
            told = await visit.api.get(path)
            return Part("settings", card(visit, told, "Saved." if asked else "Nothing was changed."))
        except Refused as error:
            form = _refused(form, error)
    return Part("settings", {"told": told, "form": form, "done": ""})


async def make_topic(visit: Visit) -> Part | Elsewhere:
    form = new_topic_form().typed(visit.sent)
    kind = visit.sent("kind")
    wish: dict[str, Any] = {"queues": whole(visit.sent("queues"))}
    wish |= {"ordered": True} if kind == "ordered" else {"kind": kind}
    return await _make(visit, form, f"/v1/topics/{part(visit.sent('name'))}", wish, "/ui/topics")


async def make_group(visit: Visit) -> Part | Elsewhere:
    """Creates a group of an existing topic."""
    topic = visit.sent("topic")
    form = new_group_form(topic).typed(visit.sent)
    path = f"/v1/topics/{part(topic)}"
    try:
        await visit.api.get(path)  # a PUT of the group would create the topic
    except Refused as error:
        return Part("form", {"form": _refused(form, error)})
    return await _make(
        visit,
        form,
        f"{path}/groups/{part(visit.sent('name'))}",
        {"from": visit.sent("from")},
        f"/ui/groups/{part(topic)}",
    )


async def _make(visit: Visit, form: Form, path: str, wish: Mapping[str, Any], home: str) -> Part | Elsewhere:
    name = visit.sent("name")
    if not name:
        return Part("form", {"form": _named(form, "Say its name.")})
    try:
        await visit.api.get(path)
    except Refused as error:
        if error.status == 400:
            return Part("form", {"form": _named(form, error.detail)})
        if error.status != 404:
            return Part("form", {"form": _refused(form, error)})
    else:
        return Part("form", {"form": _named(form, f"{name} is there already.")})
    try:
        await visit.api.ask("PUT", path, wish)
    except Refused as error:
        return Part("form", {"form": _refused(form, error)})
    return Elsewhere(f"{home}/{part(name)}")


def _named(form: Form, wrong: str) -> Form:
    return evolve(form, fields=[evolve(one, wrong=wrong if one.name == "name" else "") for one in form.fields])


def _refused(form: Form, error: Refused) -> Form:
    """The form with the API's errors. A 401 is raised instead, which leads to the sign-in page."""
    if error.status == 401:
        raise error
    return form.refused(error)
