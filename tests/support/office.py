"""A node for tests whose group is pushed to an endpoint."""

import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from support.embedded import embedded
from support.receiver import Received, Receiver
from support.running import running
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.settings import Settings
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.groups.push import PushRow
from tarry.store.records import Draft, Group, GroupState, Publication, Topic
from tarry.wheel.ladder import Ladder

SECRET = "whsec_" + b64encode(bytes(32)).decode()


class Office:
    """A node whose group `billing` is pushed to the endpoint."""

    topic: Topic
    group: Group

    def __init__(self, path: Path, there: Receiver, metrics: Metrics, **more: Any) -> None:
        settings = Settings(push_allow=("127.0.0.1/32",), client_timeout=2000, shutdown_grace=5000, **more)
        self.there = there
        self.metrics = metrics
        self.server = begin(embedded(path), settings, metrics)

    @property
    def node(self) -> Node:
        return self.server.node

    async def begin(self, ladder: tuple[int, ...] = (0,) * 20, *, ordered: bool = False) -> None:
        self.topic, _ = await self.node.catalogue.put_topic(TopicDraft("orders", ordered=ordered))
        self.group, _ = await self.node.catalogue.put_group(self.topic, "billing", Ladder(ladder))

    async def push(self, *, secrets: tuple[str, ...] = (SECRET,), timeout: int = 5000, most: int = 10) -> None:
        await self.node.pushers.put(self.topic, "billing", f"{self.there.url}/in", secrets, timeout, most)

    async def publish(self, *bodies: bytes, **draft: Any) -> list[int]:
        drafts = tuple(Draft(topic=self.topic, queue=self.topic.queues[0], body=body, **draft) for body in bodies)
        receipts = await self.node.intake.publish(Publication(drafts))
        assert isinstance(receipts, list)
        return [one.id for one in receipts]

    async def deliver(self, *bodies: bytes) -> None:
        """Publishes them, and waits until all that there was is acked."""
        acked = (await self.state()).acked + len(bodies)
        await self.publish(*bodies)
        await self.until(lambda state: state.acked == acked)

    async def came(self, many: int) -> list[Received]:
        return await trio.to_thread.run_sync(partial(self.there.wait_for, many))

    async def state(self) -> GroupState:
        return await self.node.store.read(catalogue.group_state, self.group)

    async def until(self, seen: Callable[[GroupState], bool]) -> GroupState:
        with trio.fail_after(20):
            while not seen(state := await self.state()):
                await trio.sleep(0.01)
        return state

    async def row(self) -> PushRow:
        return await self.node.pushers.find(self.group)

    async def until_row(self, seen: Callable[[PushRow], bool]) -> PushRow:
        with trio.fail_after(20):
            while not seen(row := await self.row()):
                await trio.sleep(0.01)
        return row

    def metric(self, name: str) -> float:
        match = re.search(
            rf'^{name}{{group="billing",topic="orders"}} (\S+)$', self.metrics.text().decode(), re.MULTILINE
        )
        return float(match[1]) if match else 0.0


@asynccontextmanager
async def open_office(
    path: Path, there: Receiver, *, ordered: bool = False, **settings: Any
) -> AsyncGenerator[Office, None]:
    """A node at work that has the topic and the group, to which nothing is pushed yet."""
    office = Office(path, there, Metrics(), **settings)
    async with running(office.server):
        await office.begin(ordered=ordered)
        yield office
