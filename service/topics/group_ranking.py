"""The ranking of groups: of all topics or of one, in pages, by name, or those first that have most to do.

Those that have nothing come after those that have something, by the names of topic and group. Which groups there are
the directory knows, those that other servers made a little later. What they have is added up for all at once, and
remembered for a few seconds: a group whose rank changes between two pages may come twice, or be missed. What is told of
those on a page is read for them when they are asked for.
"""

from collections.abc import Mapping
from heapq import nsmallest
from typing import Literal

import trio
from attrs import evolve, frozen

from ...store import catalogue
from ...store.looking import group_counts
from ...store.looking.group_counts import GroupCounts, Standings
from ...store.records import Group, Topic
from ...store.store import Store
from .directory import Directory

_REMEMBERED = 5.0
"""Seconds for which it is not added up again."""

GroupSort = Literal["name", "backlog", "dead_letters"]


@frozen(order=True)
class GroupPlace:
    """Where a group stands among all; a page begins behind one."""

    less: int = -1 << 62
    """What it was ranked by, below 0, so that who has most comes first; 0 when sorted by name."""
    topic: str = ""
    group: str = ""


@frozen
class RankedGroups:
    """Some groups; `after` is where the next page begins, None after the last."""

    groups: tuple[tuple[Group, GroupCounts], ...]
    after: GroupPlace | None


class GroupRanking:
    """Over the store, with the groups that the directory knows."""

    def __init__(self, store: Store, directory: Directory) -> None:
        self._store = store
        self._directory = directory
        self._adding_up = trio.Lock()
        self._standings = Standings({}, {})
        self._standings_until = float("-inf")

    async def page(self, sort: GroupSort, place: GroupPlace, limit: int, topic: Topic | None = None) -> RankedGroups:
        """At most `limit` groups from behind a place; of one topic, or of all."""
        values = await self._values(sort)
        some = self._directory.groups if topic is None else self._directory.groups_of(topic)
        placed = ((GroupPlace(-values.get(one.id, 0), one.topic.name, one.name), one) for one in some)
        behind = nsmallest(limit + 1, (one for one in placed if one[0] > place), key=lambda one: one[0])
        groups = [group for _, group in behind[:limit]]
        after = behind[limit - 1][0] if len(behind) > limit else None
        return RankedGroups(tuple(await self._described(groups)), after)

    async def _values(self, sort: GroupSort) -> Mapping[int, int]:
        if sort == "name":
            return {}
        async with self._adding_up:  # one for all who ask
            if trio.current_time() >= self._standings_until:
                self._standings = await self._store.read(group_counts.standings)
                self._standings_until = trio.current_time() + _REMEMBERED
        return self._standings.backlogs if sort == "backlog" else self._standings.letters

    async def _described(self, groups: list[Group]) -> list[tuple[Group, GroupCounts]]:
        """With their counts; but for those that have been removed meanwhile, elsewhere."""
        counts = await self._store.read(group_counts.of_groups, groups)
        paused = set(await self._store.read(catalogue.paused_groups))
        return [(evolve(one, paused=one.id in paused), counts[one.id]) for one in groups if one.id in counts]
