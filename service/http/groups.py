"""/v1/groups: the groups of all topics."""

from collections.abc import Mapping

from ..engine.topics.group_ranking import GroupPageStart, GroupSort
from . import answers, rendering
from .asgi import Response
from .call import Call, answer
from .messages import PAGE
from .names import wrong_name
from .problems import bad_cursor, bad_parameter

_SORTS: Mapping[str, GroupSort] = {"name": "name", "backlog": "backlog", "dead_letters": "dead_letters"}


async def list_all_groups(call: Call) -> Response:
    """Groups of all topics with their counts, page by page."""
    query = call.query
    sort = _SORTS.get(query.get("sort", "name"))
    if sort is None:
        raise bad_parameter("sort", "there are name, backlog and dead_letters")
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    place = _place(query.get("cursor"))
    topic = None
    if (name := query.get("topic")) is not None:
        if wrong := wrong_name(name):
            raise bad_parameter("topic", wrong)
        topic = await call.node.directory.topic(name, create=False)
    page = await call.node.group_ranking.page(sort, place, limit, topic)
    after = page.after
    cursor = None if after is None else f"{after.value}:{after.topic}:{after.group}"
    return answer(answers.GroupPage(groups=[rendering.group_counts(*one) for one in page.groups], cursor=cursor))


def _place(text: str | None) -> GroupPageStart:
    if text is None:
        return GroupPageStart()
    value, _, names = text.partition(":")
    topic, _, group = names.partition(":")
    if not (value.isdecimal() and value.isascii() and len(value) < 19) or wrong_name(topic) or wrong_name(group):
        raise bad_cursor()
    return GroupPageStart(topic, group, int(value))
