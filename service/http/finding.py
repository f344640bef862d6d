"""Finds messages of a topic by key, state and time, and counts how many fall due when."""

import re
from collections.abc import Iterable, Mapping

from ...store.looking import found_pages
from ...store.looking.finding import PageStart, Wanted
from ...store.looking.listing import Along
from ...store.records import Found, Topic
from ...store.states import FINDABLE, Findable
from ...store.timers.forecast import MINUTE
from ..durations import format_time
from . import answers, rendering
from .asgi import Response
from .call import Call, answer, of_query
from .messages import PAGE, cursor, why_held
from .names import wrong_label, wrong_name
from .problems import bad_cursor, bad_parameter

_PLACE = re.compile("([0-9]{1,9})-([0-9]{1,19})")
_ALONG = re.compile("w([0-9]{1,19})?q([0-9]{1,9})((?:-[0-9]{1,19}){1,1000})?")
"""The cursor of a page of all messages: the waiting message after which, the queue at which, and the offsets below
which to go on."""
_HOUR = 3_600_000
_WIDEST = 366 * 24 * _HOUR


async def find_messages(call: Call) -> Response:
    """Find messages of a topic, by key, or by state, and by time.

    Without a key or a state it finds all messages that wait, the next due first, and all in the stream, the newest
    first; a page has some of each.
    """
    query = call.query
    if "topic" not in query:
        raise bad_parameter("topic", "it is required")
    if wrong := wrong_name(query["topic"]):
        raise bad_parameter("topic", wrong)
    if "key" in query and (wrong := wrong_label(query["key"], call.settings.max_key)):
        raise bad_parameter("key", wrong)
    limit = call.number(query.get("max"), "max", default=PAGE, low=1, high=1000)
    since, until = call.query_time("from"), call.query_time("to")
    state = _state(query)
    if "key" in query:
        after = cursor(query.get("cursor"))
        topic = await call.node.directory.topic(query["topic"], create=False)
        return await _of_key(call, topic, query["key"], (state, since, until), after, limit)
    if state is None:
        along = _along(query.get("cursor"))
        topic = await call.node.directory.topic(query["topic"], create=False)
        all_ = await call.node.store.read(found_pages.find_all, topic, since, until, along, limit)
        return _told(call, all_.messages, None if all_.after is None else _along_text(all_.after))
    place = _place(query.get("cursor"))
    topic = await call.node.directory.topic(query["topic"], create=False)
    page = await call.node.store.read(found_pages.find, topic, Wanted(state, since, until), place, limit)
    text = None if page.after is None else f"{page.after.queue}-{page.after.after}"
    return _told(call, page.messages, text)


def _told(call: Call, messages: Iterable[Found], cursor: str | None) -> Response:
    told = [rendering.found(one, why_held(call, one)) for one in messages]
    return answer(answers.FoundPage(messages=told, cursor=cursor))


def _state(query: Mapping[str, str]) -> Findable | None:
    for state in FINDABLE:
        if query.get("state") == state:
            return state
    if "state" in query:
        raise bad_parameter("state", f"there are {', '.join(FINDABLE)}")
    return None


def _place(text: str | None) -> PageStart:
    if text is None:
        return PageStart()
    match = _PLACE.fullmatch(text)
    if match is None or int(match[2]) >= 1 << 63:
        raise bad_cursor()
    return PageStart(int(match[1]), int(match[2]))


def _along(text: str | None) -> Along:
    if text is None:
        return Along()
    match = _ALONG.fullmatch(text)
    below = () if match is None or not match[3] else tuple(map(int, match[3][1:].split("-")))
    if match is None or max(below, default=0) >= 1 << 63 or int(match[1] or 0) >= 1 << 63:
        raise bad_cursor()
    return Along(int(match[1]) if match[1] else None, int(match[2]), below or None)


def _along_text(place: Along) -> str:
    waiting = "" if place.waiting is None else place.waiting
    below = "" if place.below is None else "".join(f"-{offset}" for offset in place.below)
    return f"w{waiting}q{place.queue}{below}"


async def _of_key(
    call: Call, topic: Topic, key: str, wanted: tuple[str | None, int | None, int | None], after: int, limit: int
) -> Response:
    state, since, until = wanted

    def fits(one: Found) -> bool:
        if state is not None and not one.is_(state):
            return False
        return (since is None or one.deliver_at >= since) and (until is None or one.deliver_at < until)

    page = await call.node.store.read(found_pages.find_labelled, topic, key, after, limit)
    return _told(call, filter(fits, page.messages), None if page.after is None else str(page.after.after))


async def upcoming(call: Call) -> Response:
    """Count how many messages fall due when."""
    return await _upcoming(call, of_all=False)


async def upcoming_of_all(call: Call) -> Response:
    """Count how many messages of all topics together fall due when."""
    return await _upcoming(call, of_all=True)


async def _upcoming(call: Call, *, of_all: bool) -> Response:
    query = call.query
    buckets = call.number(query.get("buckets"), "buckets", default=24, low=1, high=100)
    since = call.query_time("from")
    with of_query("width"):
        width = call.duration(query.get("width", _HOUR), "/width", low=1000, high=_WIDEST)
    topic = None if of_all else await call.topic()
    now = call.node.clock.now()
    begin = since if since is not None else now if width % MINUTE else now // MINUTE * MINUTE
    async with call.node.counting:
        found = await call.node.forecast.upcoming(topic, begin, width, buckets, overdue=since is None)
    made = [
        answers.BucketAnswer(at=format_time(found.since + number * width), messages=count)
        for number, count in enumerate(found.counts)
    ]
    until = None if found.until is None else format_time(found.until)
    return answer(answers.UpcomingAnswer(width=width, buckets=made, counted_until=until))
