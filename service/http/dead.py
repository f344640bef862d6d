"""The calls about dead letters of a group: list, redrive, purge."""

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import UNSET, UnsetType

from ...store.looking import dead_letters
from ...store.looking.dead_letters import DeadSearch
from ...store.operating.redriving import Letters
from ..durations import format_time
from ..engine.consume.operations import Worked
from . import answers, rendering, requests
from .asgi import Response
from .call import Call, answer
from .claims import cut_reason
from .messages import PAGE, cursor
from .names import parse_ids, wrong_label
from .problems import bad_field, bad_parameter


async def list_dead(call: Call) -> Response:
    """List the dead letters of a group.

    A page of all of them, or of those that match a search.
    """
    query = call.query
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    after = cursor(query.get("cursor"))
    if "key" in query and (wrong := wrong_label(query["key"], call.settings.max_key)):
        raise bad_parameter("key", wrong)
    search = DeadSearch(query.get("key"), query.get("reason"), call.query_time("from"), call.query_time("to"))
    group = await call.group()
    page = await call.node.store.read(dead_letters.find, group, search, after, limit)
    letters = [rendering.dead_letter(group.topic, letter) for letter in page.letters]
    return answer(answers.DeadPage(messages=letters, cursor=None if page.after is None else str(page.after)))


async def redrive(call: Call) -> Response:
    """Redrive dead letters: they go back to their group.

    They begin with the first attempt. Letters that are past `expires_at`, or have no place to go back to, stay.
    """
    worked = await _worked(call, call.node.operations.redrive)
    to, astray = format_time(worked.until), worked.astray or UNSET
    done = answers.RedriveAnswer(
        redriven=worked.count, expired=worked.expired, astray=astray, more=worked.more, from_=_begin(worked), to=to
    )
    return answer(done)


async def purge(call: Call) -> Response:
    """Purge dead letters for good."""
    worked = await _worked(call, call.node.operations.purge)
    to = format_time(worked.until)
    return answer(answers.PurgeAnswer(purged=worked.count, more=worked.more, from_=_begin(worked), to=to))


def _begin(worked: Worked) -> str | UnsetType:
    return format_time(worked.since) if worked.more else UNSET


async def _worked(call: Call, work: Callable[..., Awaitable[Worked]]) -> Worked:
    request = await call.read(requests.Letters)
    since = 0 if request.from_ is None else call.time(request.from_, "/from")
    until = Letters().until if request.to is None else call.time(request.to, "/to")
    for name, label in (("key", request.key), ("tag", request.tag)):
        if label is not None and (wrong := wrong_label(label, call.settings.max_key)):
            raise bad_field(f"/{name}", wrong)
    # Reasons are stored cut, so cut this one likewise: a long one that was copied from a log is found, too.
    stem, star = (request.reason or "").removesuffix("*"), (request.reason or "").endswith("*")
    reason = None if request.reason is None else cut_reason(stem) + "*" * star
    letters = Letters(since, until, parse_ids(request.ids), key=request.key, tag=request.tag, reason=reason)
    group = await call.group()
    return await call.unless_gone(partial(work, group, letters, request.rate, dry_run=request.dry_run))
