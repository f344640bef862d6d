"""The dead letters of a group: look, redrive, purge."""

from functools import partial

from starlette.responses import Response

from ...store.looking import dead_letters
from ...store.looking.dead_letters import DeadSearch
from ...store.operating.redriving import Letters
from ...store.records import Group
from ..durations import format_time
from . import answers, rendering, requests
from .call import Call, answer
from .messages import PAGE, cursor
from .names import parse_ids, wrong_label
from .problems import Problem, bad_parameter


async def list_dead(call: Call) -> Response:
    """A page of a group's dead letters, or of those that fit a search."""
    topic_name, name = call.topic_name, call.group_name
    query = call.query("max", "cursor", "key", "reason", "from", "to")
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    after = cursor(query.get("cursor"))
    if "key" in query and (wrong := wrong_label(query["key"], call.settings.max_key)):
        raise bad_parameter("key", wrong)
    search = DeadSearch(query.get("key"), query.get("reason"), time_of(call, query.get("from"), "from"))
    search = DeadSearch(search.key, search.reason, search.since, time_of(call, query.get("to"), "to"))
    topic = await call.node.directory.topic(topic_name, create=False)
    group = await call.node.directory.group(topic, name, create=False)
    page = await call.node.store.read(dead_letters.find, group, search, after, limit)
    letters = [rendering.dead_letter(topic, letter) for letter in page.letters]
    return answer(answers.DeadPage(messages=letters, cursor=None if page.after is None else str(page.after)))


def time_of(call: Call, value: str | None, name: str) -> int | None:
    """A time of the query, Unix milliseconds."""
    if value is None:
        return None
    try:
        return call.time(value, f"/{name}")
    except Problem as problem:
        raise bad_parameter(name, problem.body.detail.removeprefix(f"/{name}: ")) from None


async def redrive(call: Call) -> Response:
    """Dead letters back to their group, from the first attempt on."""
    group, request, letters = await _asked(call)
    work = partial(call.node.operations.redrive, group, letters, request.rate, dry_run=request.dry_run)
    worked = await call.unless_gone(work)
    return answer(answers.RedriveAnswer(redriven=worked.count, more=worked.more, to=format_time(worked.until)))


async def purge(call: Call) -> Response:
    """Dead letters away for good."""
    group, request, letters = await _asked(call)
    work = partial(call.node.operations.purge, group, letters, request.rate, dry_run=request.dry_run)
    worked = await call.unless_gone(work)
    return answer(answers.PurgeAnswer(purged=worked.count, more=worked.more, to=format_time(worked.until)))


async def _asked(call: Call) -> tuple[Group, requests.Letters, Letters]:
    topic_name, name = call.topic_name, call.group_name
    call.query()
    request = await call.read(requests.Letters)
    since = 0 if request.from_ is None else call.time(request.from_, "/from")
    until = Letters().until if request.to is None else call.time(request.to, "/to")
    letters = Letters(since, until, parse_ids(request.ids))
    topic = await call.node.directory.topic(topic_name, create=False)
    return await call.node.directory.group(topic, name, create=False), request, letters
