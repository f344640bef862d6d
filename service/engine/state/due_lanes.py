"""Lanes: entries that are due all at once, a lane for each topic, handed out batch by batch in fair turns.

Each batch is shared out evenly among the lanes that have something; what one does not need is for the others. If some
lanes need no more than their share, and others more than there is room for, the small ones go by themselves, in turn
with the large: in one batch they would wait for its end, and what came for them meanwhile for that of the next. Within
a lane the oldest come first. A lane with a batch on its way gives nothing more until that is through, so that a queue
keeps the order of time, and what comes for other topics meanwhile need not wait for it.

Pure: no clock, no store. Entries are kept as columns, as in the wheel.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import islice

from attrs import define, field, frozen

from ....wheel.columns import Columns
from ....wheel.opened import Opened
from ....wheel.shards import outside

_EVER = 1 << 62
_LONG = 20
"""A lane that is so many times as long as the list of entries looked for is searched for each by halving."""


@frozen(eq=False)
class Batch:
    """A batch that is handed out together; its lanes wait until it is `over`."""

    of: Mapping[int, Sequence[int]]
    """Entries by topic."""
    more: bool
    """Whether its topics need more than their share."""

    @property
    def topics(self) -> Sequence[int]:
        return list(self.of)

    @property
    def entries(self) -> Sequence[int]:
        return [entry for some in self.of.values() for entry in some]


def unlimited(_topic: int) -> int:
    """How many entries of a topic may be taken, if no bound is given."""
    return sys.maxsize


@define(eq=False)
class DueLanes:
    _lanes: dict[int, Opened] = field(factory=dict[int, Opened], init=False)
    """By topic, in the order of their turns. None is empty."""
    _flying: dict[int, Batch] = field(factory=dict[int, Batch], init=False)
    """By topic, the batch that is on its way."""
    _few: bool = field(default=False, init=False)
    """The last batch that had to be divided was of topics that need no more than their share."""

    def __bool__(self) -> bool:
        return bool(self._lanes or self._flying)

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    @property
    def topics(self) -> Sequence[int]:
        return list(self._lanes)

    @property
    def free(self) -> bool:
        """Whether something waits of a topic with nothing on its way."""
        return any(topic not in self._flying for topic in self._lanes)

    def waiting(self, topic: int) -> int:
        lane = self._lanes.get(topic)
        return 0 if lane is None else len(lane)

    def oldest(self, but: Callable[[int], bool] = lambda _: False) -> int | None:
        """The due time of the entry that has waited longest, without some topics."""
        lanes = [lane for topic, lane in self._lanes.items() if not but(topic)]
        return min((due for lane in lanes if (due := lane.first()) is not None), default=None)

    def put(self, timers: Mapping[int, Columns]) -> None:
        """Takes entries by topic, in order."""
        for topic, some in timers.items():
            lane = self._lanes.get(topic)
            if lane is None:
                lane = self._lanes[topic] = Opened()
            lane.add_many(some.dues, some.ids)

    def take(self, limit: int, room: Callable[[int], int] = unlimited) -> Batch | None:
        """The next batch: up to `limit` entries, and of each topic up to its `room`; None when nothing may be taken."""
        most = self._wanted(limit, room)
        if not most:
            return None
        if sum(most.values()) <= limit:
            return self._hand_out(most, limit)
        few = {topic for topic, size in most.items() if size <= limit // len(most)}
        if not few:
            return self._hand_out(most, limit, more=True)
        self._few = not self._few
        turns = {topic: size for topic, size in most.items() if (topic in few) == self._few}
        return self._hand_out(turns, limit, more=not self._few)

    def take_few(self, limit: int, room: Callable[[int], int] = unlimited) -> Batch | None:
        """A batch of the shortest lanes that fit into it whole; None when none does. It is nobody's turn: whose turn it
        is in `take` stays as it is."""
        most = self._wanted(limit, room)
        left, few = limit, set[int]()
        for topic in sorted(most, key=lambda topic: most[topic]):
            if (left := left - most[topic]) < 0:
                break
            few.add(topic)
        return self._hand_out({topic: size for topic, size in most.items() if topic in few}, limit) if few else None

    def _wanted(self, limit: int, room: Callable[[int], int]) -> Mapping[int, int]:
        """How many may go of each topic, counted to just beyond the limit."""
        rooms = ((topic, room(topic)) for topic in self._lanes if topic not in self._flying)
        sizes = ((topic, min(many, limit + 1, len(self._lanes[topic]))) for topic, many in rooms if many > 0)
        return dict(islice(sizes, limit))

    def _hand_out(self, turns: Mapping[int, int], limit: int, *, more: bool = False) -> Batch:
        taken: dict[int, list[int]] = {}
        # The shortest first: what they leave of their share is shared out among the longer.
        for nth, topic in enumerate(sorted(turns, key=lambda topic: turns[topic])):
            taken[topic] = self._lanes[topic].take(_EVER, min(turns[topic], limit // (len(turns) - nth)))
            limit -= len(taken[topic])
        for topic in turns:
            lane = self._lanes.pop(topic)
            if len(lane):
                self._lanes[topic] = lane  # behind those that had no turn
        batch = Batch({topic: taken[topic] for topic in turns}, more)
        self._flying.update(dict.fromkeys(turns, batch))
        return batch

    def over(self, batch: Batch) -> None:
        """The batch is over: all of it is in the stream or elsewhere."""
        for topic in batch.topics:
            del self._flying[topic]

    def among(self, timers: Sequence[tuple[int, int]]) -> set[int]:
        """The entries among these (due, entry) that are here, on their way or not."""
        entries = {entry for _, entry in timers}
        found: set[int] = set()
        for batch in set(self._flying.values()):
            found.update(entries.intersection(batch.entries))
        for lane in self._lanes.values():
            if len(lane) > _LONG * len(timers):  # a million are not looked through for a few
                found.update(entry for due, entry in timers if lane.holds(due, entry))
            else:
                for column in lane.columns():
                    found.update(entries.intersection(column))
        return found

    def forget(self, shards: Set[int], until: int) -> Iterator[None]:
        """Forgets entries of these shards that were due before `until`; a lane at each step."""

        def stays(dues: array[int], ids: array[int]) -> list[bool]:
            return [other > 0 or due >= until for due, other in zip(dues, outside(ids, shards), strict=True)]

        for topic in list(self._lanes):
            if (lane := self._lanes.get(topic)) is not None:
                lane.keep(stays)
                if not len(lane):
                    del self._lanes[topic]
            yield
