"""A real node over an embedded store whose parts record the calls on them, and fail where a test wants it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from support.embedded import embedded
from support.hand_time import HandTime
from support.nodes import name_of
from support.running import running
from tarry.service.access.tokens import digest, make_token
from tarry.service.http.app import App
from tarry.service.http.server.ports import App as ASGIApp
from tarry.service.lifecycle import Lifecycle
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.settings import Settings
from tarry.store.catalogue import TopicDraft
from tarry.store.operating import keys
from tarry.store.operating.keys import Key
from tarry.store.records import Claim, ClaimRequest, Draft, Group, Publication, Receipt, Settled, Topic
from tarry.store.store import Store

NOW = 1_795_255_200_000
"""2026-11-21T10:00:00.000Z, the time of a spied node's clock."""

_ASKED = (
    "catalogue",
    "directory",
    "forecast",
    "groups",
    "intake",
    "liveness",
    "operations",
    "ranking",
    "group_ranking",
    "readers",
    "remover",
    "clients",
    "store",
    "sweeps",
)
"""Parts of the node that HTTP handlers call."""


class Asked(NamedTuple):
    """A call on a part, such as `intake.cancel`, and its arguments."""

    verb: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Spy:
    """Wraps a part of a node: records calls and forwards them, or raises the error that a test put into `errors`."""

    def __init__(self, name: str, part: Any, asked: list[Asked], errors: dict[str, Exception]) -> None:
        self._name, self._part, self._asked, self._errors = name, part, asked, errors

    def __getattr__(self, verb: str) -> Any:
        known = getattr(self._part, verb)
        if not callable(known):
            return known

        def ask(*args: Any, **kwargs: Any) -> Any:
            # A function that the store runs is recorded by its own name, such as `store.find_message`.
            function = args[0] if self._name == "store" else None
            call = Asked(f"{self._name}.{verb if function is None else function.__name__}", args, kwargs)
            self._asked.append(call)
            error = self._errors.get(call.verb, self._errors.get("*"))
            if error is not None:
                raise error
            return known(*args, **kwargs)

        return ask


class SpiedServer(HandTime):
    """A server whose clock shows `ms`, at first `NOW`; its spies share `asked` and `errors`."""

    def __init__(self, path: Path, settings: Settings | None = None, metrics: Metrics | None = None) -> None:
        super().__init__(NOW)
        self.asked: list[Asked] = []
        self.errors: dict[str, Exception] = {}
        """Errors by verb; `*` is for every verb."""
        self.settings = Settings() if settings is None else settings
        self.metrics = Metrics() if metrics is None else metrics
        self.backend = embedded(path)
        self.lifecycle = begin(self.backend, self.settings, self.metrics, clock=self.clock)

    @property
    def store(self) -> Store:
        """The node's store."""
        return self.node.store

    @property
    def node(self) -> Node:
        """The node without spies, for calls of a test besides its requests."""
        return self.lifecycle.node

    def app(self) -> ASGIApp:
        """The app that a server serves, over spies."""
        return App(cast(Lifecycle, Spied(self)), self.settings, self.metrics)

    def all(self, verb: str) -> list[tuple[Any, ...]]:
        """The arguments of every such call, in order."""
        return [call.args for call in self.asked if call.verb == verb]

    def named(self, verb: str) -> list[dict[str, Any]]:
        """The keyword arguments of every such call, in order."""
        return [call.kwargs for call in self.asked if call.verb == verb]

    async def topic(self, name: str = "orders", **draft: Any) -> Topic:
        """Creates the topic with the settings of the draft."""
        return (await self.node.catalogue.put_topic(TopicDraft(name, **draft)))[0]

    async def group(self, topic: Topic, name: str = "billing", **asked: Any) -> Group:
        """Returns the group, created if it is missing."""
        return await self.node.directory.group(topic, name, **asked)

    async def make_key(self, name: str, *scopes: str) -> str:
        """Makes a key, which the server knows at once."""
        token = make_token()
        await self.store.write(keys.add, Key(name, digest(token), scopes, 0))
        await self.node.keyring.refresh()
        return token

    async def revoke_key(self, name: str) -> None:
        assert await self.store.write(keys.revoke, name, 1) == "revoked"
        await self.node.keyring.refresh()

    async def publish(self, topic: Topic, *bodies: bytes, **draft: Any) -> list[Receipt]:
        """Publishes a message with each body, to the first queue unless another is given."""
        queue = draft.pop("queue", topic.queues[0])
        drafts = tuple(Draft(topic=topic, queue=queue, body=body, **draft) for body in bodies)
        receipts = await self.node.intake.publish(Publication(drafts))
        assert isinstance(receipts, list)
        return receipts

    async def claim(
        self, group: Group, client: str = "c1", size: int = 10, lease: int = 60_000, wait: int = 0
    ) -> Claim:
        """Claims messages for a client, which must be there or come within `wait` milliseconds."""
        claim = await self.node.groups.claim(group, ClaimRequest(client, size, lease), wait)
        assert claim is not None
        return claim

    async def settle(self, claim: Claim, verb: Literal["ack", "fail"], *ids: int, reason: str | None = None) -> Settled:
        """Acks or fails the claim, or these messages of it."""
        name = name_of(claim)
        return await self.node.groups.settle(name, verb, ids=ids or None, reason=reason)


class Spied:
    """A lifecycle as HTTP handlers see it, with spies for the node's parts."""

    def __init__(self, server: SpiedServer) -> None:
        self._server = server
        self._made: tuple[Node, Node] | None = None
        """The node, and the node with spies, kept since handlers ask for it at each message."""

    @property
    def node(self) -> Node:
        node, server = self._server.node, self._server
        if self._made is not None and self._made[0] is node:
            return self._made[1]
        spied = copy(node)
        for name in _ASKED:
            setattr(spied, name, Spy(name, getattr(node, name), server.asked, server.errors))
        self._made = node, spied
        return spied

    async def readiness(self) -> list[tuple[str, str | None]]:
        return await self._server.lifecycle.readiness()


@asynccontextmanager
async def spied(
    path: Path, settings: Settings | None = None, metrics: Metrics | None = None, *, ready: bool = True
) -> AsyncGenerator[SpiedServer, None]:
    """Starts a spied server; waits until it is ready and has recovered, if `ready` is set."""
    server = SpiedServer(path, settings, metrics)
    async with running(server.lifecycle, ready=ready):
        yield server
