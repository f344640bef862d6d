"""The ranking of groups, of all topics or of one: pages by name, or with those first that have most to do.

Groups that have nothing come after those that have something, by the names of topic and group. The directory knows
which groups there are; of those that other servers made it hears a little later. What they have is added up for all at
once, and remembered for a few seconds: a group whose rank changes between two pages may come twice, or be missed. The
counts of the groups on a page are read when the page is asked for.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Literal

import trio
from attrs import evolve, frozen

from ....store import catalogue
from ....store.looking import group_counts
from ....store.looking.group_counts import GroupCounts
from ....store.records import Group, Topic
from ....store.store import Store
from ..state.directory import Directory

_REMEMBERED = 5.0
"""Seconds for which the sums are remembered."""

GroupSort = Literal["name", "backlog", "dead_letters"]


@frozen
class GroupPageStart:
    """The group behind which a page begins: its names, and the value it was ranked by."""

    topic: str = ""
    group: str = ""
    value: int = 1 << 62
    """0 when sorted by name."""

    @property
    def key(self) -> tuple[int, str, str]:
        """A sort key: groups that have most come first."""
        return -self.value, self.topic, self.group


@frozen
class RankedGroups:
    """Some groups; `after` is where the next page begins, None after the last."""

    groups: tuple[tuple[Group, GroupCounts], ...]
    after: GroupPageStart | None


@frozen
class _Order:
    """The groups that have something, in order, and what each of them has."""

    keys: list[tuple[int, str, str]]
    """As `GroupPageStart.key`."""
    ids: list[int]
    values: dict[int, int]


_NOBODY = _Order([], [], {})


class GroupRanking:
    """Ranks the groups that the directory knows by what the store counts of them."""

    def __init__(self, store: Store, directory: Directory) -> None:
        self._store = store
        self._directory = directory
        self._adding_up = trio.Lock()
        self._backlogs = self._letters = _NOBODY
        self._until = float("-inf")

    async def page(
        self, sort: GroupSort, place: GroupPageStart, limit: int, topic: Topic | None = None
    ) -> RankedGroups:
        """Up to `limit` groups from behind a place; of one topic, or of all."""
        order = await self._order(sort)
        groups: list[Group] = []
        for group in self._behind(order, place, topic):
            if len(groups) == limit:
                last = groups[-1]
                after = GroupPageStart(last.topic.name, last.name, order.values.get(last.id, 0))
                return RankedGroups(await self._described(groups), after)
            groups.append(group)
        return RankedGroups(await self._described(groups), None)

    def _behind(self, order: _Order, place: GroupPageStart, topic: Topic | None) -> Iterator[Group]:
        for number in range(bisect_right(order.keys, place.key), len(order.keys)):
            group = self._directory.group_by_id(order.ids[number])
            if group is not None and (topic is None or group.topic.id == topic.id):
                yield group
        begin = (place.topic, place.group) if place.value == 0 else ("", "")
        for one in self._directory.topics_from(begin[0]) if topic is None else [topic]:
            for group in self._directory.groups_of(one):
                if (one.name, group.name) > begin and group.id not in order.values:
                    yield group

    async def _order(self, sort: GroupSort) -> _Order:
        if sort == "name":
            return _NOBODY
        async with self._adding_up:  # one for all who ask
            if trio.current_time() >= self._until:
                standings = await self._store.read(group_counts.standings)
                self._backlogs, self._letters = self._ordered(standings.backlogs), self._ordered(standings.letters)
                self._until = trio.current_time() + _REMEMBERED
        return self._backlogs if sort == "backlog" else self._letters

    def _ordered(self, values: Mapping[int, int]) -> _Order:
        known = ((-many, self._directory.group_by_id(id_)) for id_, many in values.items())
        rows = sorted((less, one.topic.name, one.name, one.id) for less, one in known if one is not None)
        return _Order([row[:3] for row in rows], [row[3] for row in rows], {row[3]: -row[0] for row in rows})

    async def _described(self, groups: list[Group]) -> tuple[tuple[Group, GroupCounts], ...]:
        """These groups with their counts, without those that have been removed elsewhere meanwhile."""
        counts = await self._store.read(group_counts.of_groups, groups)
        paused = set(await self._store.read(catalogue.paused_groups))
        return tuple((evolve(one, paused=one.id in paused), counts[one.id]) for one in groups if one.id in counts)
