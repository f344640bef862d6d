"""Runs the pushers at this server: one for each group whose messages are posted to an endpoint.

Every server claims for every such group, like clients of a group at several servers: rows arbitrate, and no server has
to be elected. The number of messages in flight is divided among the servers, so each knows its share.
"""

import itertools
from collections.abc import Iterator, Sequence

import structlog
import trio
from attrs import define, field

from ...store.groups import push
from ...store.groups.push import PushRow
from ...store.records import Group, Topic
from ..access.clients import own_name
from ..engine.cluster.nodes import Nodes
from ..engine.state.directory import Directory
from ..errors import TopicConflict, UnknownPush
from .addresses import Network
from .pusher import PushContext, Pusher

_ROUND, _IDLE_ROUND = 2.0, 10.0
"""Seconds between two looks at endpoints set at other servers: with pushers, and without."""

log = structlog.get_logger()


@define(eq=False)
class Pushers:
    """Call `open` once there is a nursery, `look` over and over with a `rest` between, and `stop` at the end; posts
    under way then have `grace` seconds to finish."""

    _context: PushContext
    _directory: Directory
    _nodes: Nodes
    _name: str
    allowed: Sequence[Network]
    """Networks that may be posted to, beside the public internet."""
    _grace: float
    _running: dict[int, Pusher] = field(factory=dict[int, Pusher], init=False)
    _ending: set[Pusher] = field(factory=set[Pusher], init=False)
    _unreadable: dict[int, PushRow] = field(factory=dict[int, PushRow], init=False)
    """Rows by group id that cannot be read; the log has said so."""
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)
    _numbers: Iterator[int] = field(factory=itertools.count, init=False)
    """Numbers for the names of clients: each pusher has a new one, so that one that ends takes nothing from its
    successor."""

    def open(self, nursery: trio.Nursery) -> None:
        """Lets pushers run from now on, as tasks of this nursery."""
        self._nursery = nursery

    def stop(self) -> None:
        """Stops claiming; posts under way finish, or their messages are given back."""
        self._stopping = True
        for group_id in list(self._running):
            self._end(group_id)
        for pusher in self._ending:
            pusher.end(trio.current_time() + self._grace)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way any more after `stop`."""
        return not self._running and all(pusher.over for pusher in self._ending)

    async def find(self, group: Group) -> PushRow:
        """The push settings of a group. Raises `UnknownPush`."""
        if (row := await self._context.store.read(push.find, group.id)) is None:
            raise UnknownPush(f"messages of group {group.name!r} of topic {group.topic.name!r} are not pushed")
        return row

    async def put(
        self, topic: Topic, name: str, url: str, secrets: Sequence[str], timeout: int, max_in_flight: int
    ) -> tuple[PushRow, bool]:
        """Sets the endpoint of a group, creating the group if needed, and switches pushing on; the result is True if
        there was none. Durations are milliseconds. Raises `TopicConflict`."""
        if topic.kind == "broadcast":
            raise TopicConflict(
                f"topic {topic.name!r} is a broadcast topic: nobody acks its messages, so none is pushed"
            )
        group = await self._directory.group(topic, name, asked_for=True)
        now = self._context.clock.now()
        row, made = await self._context.store.write(
            push.put, group, url, " ".join(secrets), timeout, max_in_flight, now
        )
        self._see(group, row)
        return row, made

    async def remove(self, group: Group) -> None:
        """Removes the endpoint of a group. Raises `UnknownPush`."""
        row = await self.find(group)
        await self._context.store.write(push.remove, group)
        self._end(row.group_id)

    def rest(self) -> float:
        """Seconds to the next look; longer while nothing is pushed."""
        return _ROUND if self._running else _IDLE_ROUND

    async def look(self) -> None:
        """Follows the endpoints that other servers have set, and the number of servers."""
        rows = {row.group_id: row for row in await self._context.store.read(push.all_pushes)}
        for group_id in self._running.keys() - rows.keys():
            self._end(group_id)
        for row in rows.values():
            group = await self._directory.look_up_group(row.group_id)
            if group is not None:
                self._try_to_see(group, row)
            else:
                self._end(row.group_id)
        self._ending = {pusher for pusher in self._ending if not pusher.over}

    def _try_to_see(self, group: Group, row: PushRow) -> None:
        """As `_see`; a row that was overwritten from outside is logged, and the other groups are pushed all the
        same."""
        try:
            self._see(group, row)
        except ValueError as error:
            if self._unreadable.get(group.id) != row:
                log.error("push_unreadable", topic=group.topic.name, group=group.name, error=str(error))
            self._unreadable[group.id] = row

    def _see(self, group: Group, row: PushRow) -> None:
        share = share_of(row, *self._nodes.place)
        pusher = self._running.get(group.id)
        if pusher is not None and pusher.of(group):
            pusher.see(row, share)
        elif self._nursery is not None and not self._stopping:
            self._end(group.id)
            client = own_name(self._name, self._nodes.boot, next(self._numbers))
            pusher = self._running[group.id] = Pusher(self._context, group, row, client, share)
            self._nursery.start_soon(pusher.run)

    def _end(self, group_id: int) -> None:
        if (pusher := self._running.pop(group_id, None)) is not None:
            pusher.end()
            self._ending.add(pusher)
            self._context.metrics.push_gone(*pusher.names)


def share_of(row: PushRow, number: int, servers: int) -> int:
    """How many messages one of the servers may have in flight; the shares of all servers add up to the limit. The
    remainder of the division falls to other servers for other groups."""
    return row.max_in_flight // servers + ((number + row.group_id) % servers < row.max_in_flight % servers)
