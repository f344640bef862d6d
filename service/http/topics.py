"""/v1/topics, their groups and dead letters."""

from msgspec import UNSET, UnsetType
from starlette.responses import Response

from ...store.catalogue import TopicDraft
from ...store.records import Group, Topic
from ...wheel.ladder import MAX_REST_MS, Ladder
from ..errors import UnknownGroup, UnknownTopic
from ..rates import Activity, Rate
from . import answers, rendering
from .call import Call, answer
from .messages import PAGE, cursor
from .problems import bad_parameter
from .requests import PutGroup, PutTopic

_QUIET = Activity(Rate(), 0)


async def put_topic(call: Call) -> Response:
    """Makes a topic or changes one."""
    name = call.topic_name
    call.query()
    request = await call.read(PutTopic)
    try:
        known = await call.broker.topic(name, create=False)
    except UnknownTopic:
        known = None
    draft = _draft(call, name, request, known)
    topic, made = await call.broker.put_topic(draft)
    return answer(rendering.topic(topic), 201 if made else 200)


def _draft(call: Call, name: str, request: PutTopic, known: Topic | None) -> TopicDraft:
    """What is left out stays as it is, or is the default."""
    was = TopicDraft(name)
    if known is not None:
        was = TopicDraft(name, known.kind, len(known.queues), known.ordered, known.retention, known.ladder)
    retention = was.retention
    if request.retention is None:
        retention = None
    elif not isinstance(request.retention, UnsetType):
        retention = call.duration(request.retention, "/retention", high=MAX_REST_MS)
    return TopicDraft(
        name=name,
        kind=was.kind if request.kind is UNSET else request.kind,
        queues=was.queues if request.queues is UNSET else request.queues,
        ordered=was.ordered if request.ordered is UNSET else request.ordered,
        retention=retention,
        ladder=was.ladder if request.ladder is UNSET else _ladder(call, request.ladder),
    )


def _ladder(call: Call, rungs: list[int | str] | None) -> Ladder | None:
    if rungs is None:
        return None
    rests: tuple[int, ...] = tuple(
        call.duration(rung, f"/ladder/{number}", high=MAX_REST_MS) for number, rung in enumerate(rungs)
    )
    return Ladder(rests)


async def list_topics(call: Call) -> Response:
    """All topics with their counts."""
    sort = call.query("sort").get("sort", "name")
    if sort not in ("name", "rate", "backlog"):
        raise bad_parameter("sort", "there are name, rate and backlog")
    topics = await call.broker.topics()
    activity = await call.broker.activity()
    ranked = [rendering.topic_ranked(one, state, activity.get(one.id, _QUIET)) for one, state in topics]
    if sort == "rate":
        ranked.sort(key=lambda one: -(one.published_rate + one.delivered_rate))
    elif sort == "backlog":
        ranked.sort(key=lambda one: -one.backlog)
    return answer(answers.TopicList(topics=ranked))


async def get_topic(call: Call) -> Response:
    """One topic with its counts and groups."""
    call.query()
    topic = await call.broker.topic(call.topic_name, create=False)
    for one, state in await call.broker.topics():
        if one.id == topic.id:
            groups = [(group, await call.broker.group_state(group)) for group in await call.broker.groups(one)]
            return answer(rendering.topic_detail(one, state, groups))
    raise UnknownTopic(f"there is no topic {topic.name!r}")


async def list_groups(call: Call) -> Response:
    """The groups of a topic."""
    call.query()
    topic = await call.broker.topic(call.topic_name, create=False)
    groups = await call.broker.groups(topic)
    return answer(answers.GroupList(groups=[rendering.group_summary(group) for group in groups]))


async def put_group(call: Call) -> Response:
    """Makes a group or changes one."""
    topic_name, name = call.topic_name, call.group_name
    call.query()
    request = await call.read(PutGroup)
    ladder = None if request.ladder is UNSET else _ladder(call, request.ladder)
    topic = await call.broker.topic(topic_name)
    group, made = await _put_group(call, topic, name, request, ladder)
    if not isinstance(request.concurrency, UnsetType):
        group = await call.broker.limit_group(group, request.concurrency)
    return answer(rendering.group_summary(group), 201 if made else 200)


async def _put_group(
    call: Call, topic: Topic, name: str, request: PutGroup, ladder: Ladder | None
) -> tuple[Group, bool]:
    if request.ladder is UNSET:
        try:
            return await call.broker.group(topic, name, create=False), False
        except UnknownGroup:
            pass  # made below
    return await call.broker.put_group(topic, name, ladder)


async def get_group(call: Call) -> Response:
    """Where a group stands."""
    topic_name, name = call.topic_name, call.group_name
    call.query()
    topic = await call.broker.topic(topic_name, create=False)
    group = await call.broker.group(topic, name, create=False)
    return answer(rendering.group_detail(group, await call.broker.group_state(group)))


async def list_dead(call: Call) -> Response:
    """A page of a group's dead letters."""
    topic_name, name = call.topic_name, call.group_name
    query = call.query("max", "cursor")
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    after = cursor(query.get("cursor"))
    topic = await call.broker.topic(topic_name, create=False)
    group = await call.broker.group(topic, name, create=False)
    page = [rendering.dead_letter(topic, letter) for letter in await call.broker.dead_letters(group, after, limit)]
    return answer(answers.DeadPage(messages=page, cursor=page[-1].id if len(page) == limit else None))
