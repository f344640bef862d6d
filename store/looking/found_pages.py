"""Pages of found messages, each with its content and its life, in a bounded number of statements.

A search (`finding`, `standings`, `listing`, a key) finds ids, and where the page behind each would begin. Here the page
is cut before the messages are read: at `BYTES` of bodies, and where their lives would take more than `_LOOKS` lookups
in the log. The next page begins with the messages that were cut off.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Generic

from attrs import frozen

from ..ids import places_of
from ..ports import Transaction
from ..records import Found, Topic
from ..states import STANDINGS
from ..stream.stretches import CLAIM_BYTES as BYTES
from . import finding, listing, standings
from .finding import P, Page, PageStart, Wanted
from .listing import Along
from .tracing import find_messages

_WEIGHED = (40, 160, 1000)
"""How many messages are weighed at a time: to tell the length of a body, MySQL must read it."""
_LOOKS = 4000
"""The most messages times groups: each group may have claimed each message."""


@frozen
class FoundPage(Generic[P]):
    """A page of messages, which may be short or empty; `after` is where the next page begins, None after the last."""

    messages: tuple[Found, ...]
    after: P | None


async def find(tx: Transaction, topic: Topic, wanted: Wanted, place: PageStart, limit: int) -> FoundPage[PageStart]:
    """A page of at most `limit` messages of a topic by state and time."""
    groups = await standings.groups_of(tx, topic)
    search = standings.find if wanted.state in STANDINGS else finding.find
    page = await _cut(tx, await search(tx, topic, wanted, place, limit), groups, dead=wanted.state == "dead")
    found = await find_messages(tx, page.ids)
    if wanted.state == "dead":  # a letter outlives its message
        gone = [id_ for id_ in page.ids if id_ not in found]
        found |= await standings.find_letters(tx, topic, gone)
    # A message that has moved meanwhile may not have this state any more.
    fitting = [found[id_] for id_ in page.ids if id_ in found and found[id_].is_(wanted.state)]
    return FoundPage(tuple(fitting), page.after)


async def find_all(
    tx: Transaction, topic: Topic, since: int | None, until: int | None, place: Along, limit: int
) -> FoundPage[Along]:
    """A page of at most `limit` messages of a topic, waiting or in the stream; see `listing`."""
    groups = await standings.groups_of(tx, topic)
    page = await _cut(tx, await listing.find(tx, topic, since, until, place, limit), groups)
    found = await find_messages(tx, page.ids)
    return FoundPage(tuple(found[id_] for id_ in page.ids if id_ in found), page.after)


async def find_labelled(tx: Transaction, topic: Topic, key: str, after: int, limit: int) -> FoundPage[PageStart]:
    """A page of the messages of a key in order of their ids, behind `after`."""
    ids = await tx.fetch("label.find", int, topic.id, key.encode(), after, limit)
    places = tuple((id_, PageStart(after=id_)) for id_ in ids)
    groups = await standings.groups_of(tx, topic)
    page = await _cut(tx, Page(places, places[-1][1] if len(ids) == limit else None), groups)
    found = await find_messages(tx, page.ids)
    return FoundPage(tuple(found[id_] for id_ in page.ids if id_ in found), page.after)


async def _cut(tx: Transaction, page: Page[P], groups: Sequence[int], *, dead: bool = False) -> Page[P]:
    """Cuts the page to what may be read, at least one message."""
    ids = page.ids[: max(1, _LOOKS // max(1, len(groups)))]
    taken, total, begin = 0, 0, 0
    for many in _WEIGHED:
        some = ids[begin : begin + many]
        if not some:
            break
        weights = await _weights(tx, some, groups if dead else [])
        for id_ in some:
            total += weights[id_]
            if taken and total > BYTES:
                return _first(page, taken)
            taken += 1
        begin += many
    return _first(page, taken)


def _first(page: Page[P], many: int) -> Page[P]:
    if many == len(page.places):
        return page
    places = page.places[:many]
    return Page(places, places[-1][1])


async def _weights(tx: Transaction, ids: Sequence[int], dead_in: Sequence[int]) -> dict[int, int]:
    """The bytes of each message: of its body and headers, and of the histories of its attempts."""
    weights: dict[int, int] = defaultdict(int)
    for id_, weight in await tx.fetch("message.weights", tuple[int, int], places_of(ids), ids, ids):
        weights[id_] += weight
    letters: dict[int, int] = {}
    for id_, weight in await tx.fetch("dead.weights", tuple[int, int], ids, dead_in) if dead_in else []:
        letters[id_] = max(letters.get(id_, 0), weight)  # letters of several groups are shown as one message
    for id_, weight in letters.items():
        weights[id_] = max(weights[id_], weight)
    return weights
