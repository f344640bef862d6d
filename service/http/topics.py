"""The calls about topics and their groups."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from msgspec import UNSET, UnsetType

from ...store import catalogue
from ...store.catalogue import TopicDraft
from ...store.looking import group_counts
from ...store.records import Topic
from ...wheel.ladder import MAX_REST_MS, Ladder
from ..engine.topics.catalogue import ALL
from ..engine.topics.group_ranking import GroupPageStart, GroupSort
from ..engine.topics.ranking import Sort, TopicPageStart
from ..errors import UnknownGroup, UnknownTopic
from . import answers, rendering
from .asgi import Response
from .call import Call, answer
from .messages import PAGE
from .names import wrong_name
from .problems import bad_cursor, bad_field, bad_parameter
from .requests import Nudge, PutGroup, PutTopic

_NOT_NULL = ("kind", "queues", "ordered", "sequencer", "jitter")
"""Fields of a topic for which null means the same as leaving them out."""
_SORTS: Mapping[str, Sort] = {"name": "name", "rate": "rate", "backlog": "backlog"}
_GROUP_SORTS: Mapping[str, GroupSort] = {"name": "name", "backlog": "backlog", "dead_letters": "dead_letters"}


async def put_topic(call: Call) -> Response:
    """Create a topic or change one."""
    request = await call.read(PutTopic)
    try:
        known = await call.topic()
    except UnknownTopic:
        known = None
    draft = _draft(call, request, known)
    named = {name for name in ALL if getattr(request, name) is not UNSET}
    named -= {name for name in _NOT_NULL if getattr(request, name) is None}
    topic, made = await call.node.catalogue.put_topic(draft, named)
    return answer(rendering.topic_settings(topic, call.settings), 201 if made else 200)


def _draft(call: Call, request: PutTopic, known: Topic | None) -> TopicDraft:
    """The draft of the topic: a field left out stays as it is, or has its default in a new topic."""
    was = TopicDraft(call.part("topic"))
    if known is not None:
        kept = (known.kind, len(known.queues), known.ordered, known.retention, known.ladder, known.sequencer)
        was = TopicDraft(known.name, *kept, known.max_pending, known.max_rate, known.release_rate)
    retention = was.retention
    if request.retention is None:
        retention = None
    elif not isinstance(request.retention, UnsetType):
        retention = call.duration(request.retention, "/retention", high=MAX_REST_MS)
    asked = {name: getattr(request, name) for name in ("kind", "queues", "ordered", "sequencer")}
    given = {name: value for name, value in asked.items() if value is not None}
    limits = {name: getattr(request, name) for name in ("max_pending", "max_rate", "release_rate")}
    given |= {name: value for name, value in limits.items() if value is not UNSET}
    ladder = _ladder(call, request, was.ladder, Ladder(call.settings.ladder))
    return evolve(was, **given, retention=retention, ladder=ladder)


def _ladder(call: Call, request: PutTopic | PutGroup, own: Ladder | None, inherited: Ladder) -> Ladder | None:
    """The requested ladder: a part left out stays, and a jitter alone makes a copy of the inherited ladder its own."""
    ladder = own
    if request.ladder is None:
        ladder = None
    elif not isinstance(request.ladder, UnsetType):
        rungs = enumerate(request.ladder)
        rests = tuple(call.duration(rung, f"/ladder/{number}", high=MAX_REST_MS) for number, rung in rungs)
        ladder = Ladder(rests, 0 if own is None else own.jitter)
    if request.jitter is not None:
        ladder = evolve(inherited if ladder is None else ladder, jitter=request.jitter)
    return ladder


async def nudge(call: Call) -> Response:
    """Look at once for messages that an outbox has committed."""
    request = await call.read(Nudge)
    if request.topic is not None:
        if wrong := wrong_name(request.topic):
            raise bad_field("/topic", wrong)
        call.demand("publish", request.topic)
        await call.node.directory.topic(request.topic, create=False)
    call.node.sweeps.nudge()
    return answer(answers.NudgeAnswer(), 202)


async def list_topics(call: Call) -> Response:
    """List the topics with their counts, page by page."""
    query = call.query
    sort = _SORTS.get(query.get("sort", "name"))
    if sort is None:
        raise bad_parameter("sort", "there are name, rate and backlog")
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    page = await call.node.ranking.page(sort, TopicPageStart(*_last(query.get("cursor"), 1)), limit)
    cursor = None if page.after is None else f"{page.after.value}:{page.after.name}"
    return answer(answers.TopicList(topics=[rendering.topic_ranked(*one) for one in page.topics], cursor=cursor))


async def list_all_groups(call: Call) -> Response:
    """List the groups of all topics with their counts, page by page."""
    query = call.query
    sort = _GROUP_SORTS.get(query.get("sort", "name"))
    if sort is None:
        raise bad_parameter("sort", "there are name, backlog and dead_letters")
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    place = GroupPageStart(*_last(query.get("cursor"), 2))
    topic = None
    if (name := query.get("topic")) is not None:
        if wrong := wrong_name(name):
            raise bad_parameter("topic", wrong)
        topic = await call.node.directory.topic(name, create=False)
    page = await call.node.group_ranking.page(sort, place, limit, topic)
    after = page.after
    cursor = None if after is None else f"{after.value}:{after.topic}:{after.group}"
    return answer(answers.GroupPage(groups=[rendering.group_counts(*one) for one in page.groups], cursor=cursor))


def _last(cursor: str | None, many: int) -> tuple[Any, ...]:
    """The names of the last entry on the page before, and the value it was ranked by; empty for the first page."""
    if cursor is None:
        return ()
    value, *names = cursor.split(":")
    if not (value.isdecimal() and value.isascii() and len(value) < 19) or len(names) != many:
        raise bad_cursor()
    if any(wrong_name(name) for name in names):
        raise bad_cursor()
    return *names, int(value)


async def get_topic(call: Call) -> Response:
    """Get a topic with its counts and groups."""
    node, name = call.node, (await call.topic()).name
    topic = await node.directory.read_topic(name)
    if topic is None:
        raise UnknownTopic(f"there is no topic {name!r}")
    states = await node.store.read(catalogue.topic_states, [topic])
    known = node.directory.groups_of(topic)
    counts = await node.store.read(group_counts.of_groups, known)
    groups = [(group, counts[group.id]) for group in known if group.id in counts]
    held_back = node.pending.held_back_of(topic.id)
    return answer(rendering.topic_detail(topic, states[topic.id], groups, held_back, call.settings))


async def list_groups(call: Call) -> Response:
    """List the groups of a topic."""
    topic = await call.topic()
    groups = call.node.directory.groups_of(topic)
    return answer(answers.GroupList(groups=[rendering.group_summary(group) for group in groups]))


async def put_group(call: Call) -> Response:
    """Create a group or change one."""
    name = call.part("group")
    request = await call.read(PutGroup)
    latest, since = call.start(request.from_, "/from")
    topic = await call.node.directory.topic(call.part("topic"))
    block = request.on_exhausted == "block"
    if block and not topic.ordered:
        raise bad_field("/on_exhausted", "block is for ordered topics: here a message has nothing to hold up")
    try:
        known = await call.node.directory.group(topic, name, create=False)
    except UnknownGroup:
        known = None  # made below
    if known is not None and request.on_exhausted is UNSET:
        block = known.block
    own_asked = request.ladder is not UNSET or request.jitter is not None
    inherited = Ladder(call.settings.ladder) if topic.ladder is None else topic.ladder
    own = None if known is None else known.own_ladder
    ladder = _ladder(call, request, own, inherited) if own_asked else own
    if known is not None and not own_asked and block == known.block:
        group, made = known, False
    else:
        group, made = await call.node.catalogue.put_group(topic, name, ladder, block=block, latest=latest, since=since)
    if not isinstance(request.concurrency, UnsetType):
        group = await call.node.catalogue.limit_group(group, request.concurrency)
    return answer(rendering.group_settings(group, call.settings), 201 if made else 200)


async def get_group(call: Call) -> Response:
    """Get the position and counts of a group."""
    group = await call.group()
    return answer(rendering.group_detail(group, await call.node.groups.state(group), call.settings))


async def pause(call: Call) -> Response:
    """Pause a group: its clients are given no messages until it is resumed.

    Timers and retries go on, and so do settlements. Claims wait as if there were no messages.
    """
    return answer(rendering.group_summary(await call.node.catalogue.pause_group(await call.group(), paused=True)))


async def resume(call: Call) -> Response:
    """Resume a group that is paused."""
    return answer(rendering.group_summary(await call.node.catalogue.pause_group(await call.group(), paused=False)))


async def remove_topic(call: Call) -> Response:
    """Remove a topic, its groups and all its messages.

    Refused while it has messages that wait or are unsettled, unless by force.
    """
    force = call.query.get("force", "false")
    if force not in ("true", "false"):
        raise bad_parameter("force", "true or false")
    topic = await call.topic()
    await call.node.remover.remove_topic(topic, force=force == "true")
    return answer(answers.RemovedTopic(topic=topic.name))


async def remove_group(call: Call) -> Response:
    """Remove a group; its claims end."""
    group = await call.group()
    await call.node.remover.remove_group(group)
    return answer(answers.RemovedGroup(topic=group.topic.name, group=group.name))
