"""One call of the API: reads and checks the parts of a request, for the handlers."""

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import trio
from attrs import define

from ...store.ids import MAX_MS
from ...store.looking import tracing
from ...store.records import Group, Topic
from ..access.clients import is_own
from ..access.keyring import Holder
from ..activity import Activity
from ..durations import format_duration, format_time, parse_duration, parse_time
from ..engine.publish.shaping import WIDEST
from ..lifecycle import Lifecycle
from ..node import Node
from ..settings import Settings
from ..trace_context import PARENT, STATE, trace_of
from .access import forbidden, revoked, scope_text
from .asgi import Request, Response
from .names import NO_NAMES, parse_id, wrong_client, wrong_label, wrong_name
from .problems import Problem, bad_field, bad_parameter
from .reading import Body, ClientGone, decode, read_body
from .server.ports import ARRIVED, PRESENCE, Presence

_LATEST = MAX_MS - 2000
"""The latest due time: an id carries no later time, and its own may be up to a second after its message is due."""
_LONGEST_CLAIM = 4096
"""Characters of a claim's name; even one with the most ranges has fewer."""

B = TypeVar("B", bound=Body)
T = TypeVar("T")


@define
class Call:
    """A request and what its handler needs to serve it. Faults of the request are raised as a `Problem`."""

    request: Request
    lifecycle: Lifecycle
    settings: Settings
    exposition: Callable[[], Awaitable[bytes]]
    """Makes the text of the metrics."""
    holder: Holder
    """The holder of the request's key."""
    activity: Activity
    """What this server did in the last minutes."""

    @property
    def node(self) -> Node:
        """The node that does the work. Raises `Stopping` until the store has answered for the first time."""
        return self.lifecycle.node

    def check(self, parameters: Collection[str]) -> None:
        """Checks that the names in the path are valid, and that the query has only these parameters, each at most
        once."""
        named = (
            *((what, wrong_name) for what in ("topic", "group", "name", "report", "figure")),
            ("client", wrong_client),
            ("key", self._wrong_key),
        )
        for what, wrong_one in named:
            name = self.request.parts.get(what)
            if name is not None and (wrong := wrong_one(name)):
                raise Problem("bad-request", f"{what} {name[:100]!r}: {wrong}")
        if not self.request.scope["query_string"]:
            return
        seen: set[str] = set()
        for name, _ in self.request.parameters:
            if name not in parameters:
                near = get_close_matches(name[:100], parameters, 1)
                there_are = f"there are {', '.join(parameters)}" if parameters else "there are none"
                hint = f"did you mean {near[0]}?" if near else there_are
                raise bad_parameter(name[:100], f"unknown parameter; {hint}")
            if name in seen:
                raise bad_parameter(name, "it is given twice")
            seen.add(name)

    def _wrong_key(self, key: str) -> str | None:
        if key in NO_NAMES:
            return "a key in a path is more than one dot or two: most clients would shorten the path"
        return wrong_label(key, self.settings.max_key)

    @cached_property
    def trace(self) -> Mapping[str, str]:
        """The trace that the request is part of; messages that it publishes carry it unless they name their own."""
        if (parent := self.request.header(b"traceparent")) is None:
            return {}
        states = b",".join(self.request.headers(b"tracestate")).decode("latin-1")
        return trace_of({PARENT: parent, STATE: states})

    # Path and query, which `check` has checked

    def part(self, name: str) -> str:
        return self.request.parts[name]

    async def topic(self) -> Topic:
        """The topic in the path, which must exist. Raises `UnknownTopic`."""
        return await self.node.directory.topic(self.part("topic"), create=False)

    async def group(self) -> Group:
        """The group in the path, which must exist. Raises `UnknownTopic` and `UnknownGroup`."""
        return await self.node.directory.group(await self.topic(), self.part("group"), create=False)

    @property
    def message_id(self) -> int:
        """The id of the message in the path. Raises a `Problem`, 404, if it is not an id."""
        id_ = parse_id(self.part("id"))
        if id_ is None:
            raise self.unknown_message()
        return id_

    def unknown_message(self) -> Problem:
        return Problem("unknown-message", f"there is no message {self.part('id')[:100]!r}")

    # Access, where the path does not name the topic

    def demand(self, verb: str, topic: str) -> None:
        """Raises a `Problem`, 403, if the key's scopes do not cover this topic, which the body names."""
        if not self.holder.scopes.reach(verb, topic):
            raise forbidden(self.holder, scope_text(verb, topic))

    async def own_message(self, verb: str) -> int:
        """The id of the message in the path. Raises a `Problem`, 404, if the key's scopes do not cover its topic."""
        id_ = self.message_id
        scopes = self.holder.scopes
        if not scopes.reach_all(verb):
            topic = await self.node.store.read(tracing.topic_of, id_)
            if topic is None or not scopes.reach(verb, topic):
                raise self.unknown_message()
        return id_

    async def own_claim(self) -> str:
        """The claim in the path. Raises a `Problem`, 404, if the key's scopes do not cover its group."""
        name = self.part("claim")
        await self.check_claim(name)
        return name

    async def check_claim(self, name: str) -> None:
        """Checks that the name is one that a claim can have, and that the key's scopes cover its group. Raises a
        `Problem`."""
        if not (len(name) <= _LONGEST_CLAIM and name.isascii() and name.isprintable()):
            raise Problem("unknown-claim", "there is no such claim")
        scopes = self.holder.scopes
        if not scopes.reach_all("consume") and name != "null":
            group = await self.node.groups.group_of(name)
            if group is None or not scopes.reach("consume", group.topic.name, group.name):
                raise Problem("unknown-claim", f"there is no claim {name[:100]!r}")

    async def own_client(self, client: str) -> str:
        """Makes the client belong to this key, and returns its name. Raises a `Problem`, 403, if it belongs to another
        key."""
        if not await self.node.client_owners.may_use(client, self.holder):
            why = "is one of a server's own" if is_own(client) else "belongs to another key"
            detail = f"the client {client[:100]!r} {why}: choose a name of your own"
            raise Problem("forbidden", detail, executed=False)
        return client

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    def query_time(self, name: str) -> int | None:
        """A time in the query as Unix milliseconds; None if it is not given."""
        with of_query(name):
            return None if name not in self.query else self.time(self.query[name], f"/{name}")

    # Body

    async def read(self, type_: type[B]) -> B:
        """Reads and decodes the body of a request that carries no messages."""
        return decode(await read_body(self.request, type_.limit), type_)

    # Values

    def deliver_at(self, delay: int | str | None, deliver_at: str | None, pointer: str = "") -> int | None:
        """The requested time as Unix milliseconds, None for now. A delay counts from the moment of this call."""
        if delay is not None and deliver_at is not None:
            raise bad_field(f"{pointer}/delay", "there is a deliver_at too: leave one of them out")
        limit = self.settings.max_delay
        if delay is not None:
            ms = self.duration(delay, f"{pointer}/delay", high=limit)
            at, field = self.node.clock.now() + ms if ms else None, "delay"
        elif deliver_at is not None:
            try:
                at, field = parse_time(deliver_at), "deliver_at"
            except ValueError as error:
                raise bad_field(f"{pointer}/deliver_at", str(error)) from None
        else:
            return None
        if at is not None:
            self._check_ahead(at, f"{pointer}/{field}")
        return at

    def _check_ahead(self, at: int, pointer: str) -> None:
        limit = self.settings.max_delay
        if at > min(self.node.clock.now() + limit, _LATEST):
            raise bad_field(pointer, f"it is more than {format_duration(limit)} ahead, or after 2109")

    def between(self, window: Sequence[str], pointer: str = "", *, again: bool = False) -> tuple[int, int]:
        """A window of time as Unix milliseconds. It may be over only if the request is a repetition (`again`). Raises a
        `Problem`."""
        field = f"{pointer}/deliver_between"
        times: list[int] = []
        for index, text in enumerate(window):
            try:
                times.append(max(parse_time(text), 0))
            except ValueError as error:
                raise bad_field(f"{field}/{index}", str(error)) from None
        since, until = times
        now = self.node.clock.now()
        if until <= since:
            raise bad_field(field, "it does not end after it begins: say [from, to]")
        if until <= now and not again:
            raise bad_field(field, f"it is over: the server's time is {format_time(now)}")
        if until - since > WIDEST:
            raise bad_field(field, f"it is {format_duration(WIDEST)} wide at most")
        self._check_ahead(until, f"{field}/1")
        return since, until

    def start(self, value: str | None, pointer: str) -> tuple[bool, int | None]:
        """Where a group begins: whether after the latest message, and otherwise the time from which on, None for the
        earliest."""
        if value is None or value in ("earliest", "latest"):
            return value == "latest", None
        return False, self.time(value, pointer, or_else='"earliest", "latest" or ')

    def time(self, value: str, pointer: str, *, or_else: str = "") -> int:
        """Unix milliseconds of a search or an end; a time before 1970 counts as 1970."""
        try:
            return max(parse_time(value), 0)
        except ValueError as error:
            raise bad_field(pointer, f"say {or_else}a time; {error}" if or_else else str(error)) from None

    def duration(self, value: int | str, pointer: str, *, high: int, low: int = 0) -> int:
        """A duration in milliseconds, from `low` to `high`, both included."""
        try:
            ms = parse_duration(value)
        except ValueError as error:
            raise bad_field(pointer, str(error)) from None
        if not low <= ms <= high:
            raise bad_field(pointer, f"it lies between {format_duration(low)} and {format_duration(high)}")
        return ms

    def wait(self, value: int | str | None, pointer: str) -> int:
        """Milliseconds that remain of a wait, which counts from the request's arrival."""
        wait = self.duration(0 if value is None else value, pointer, high=self.settings.max_wait)
        arrived: float | None = self.request.scope.get(ARRIVED)
        return wait if arrived is None else max(0, wait - round(1000 * (trio.current_time() - arrived)))

    def number(self, value: str | None, name: str, *, default: int, low: int, high: int) -> int:
        if value is None:
            return default
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
        if not low <= number <= high:
            raise bad_parameter(name, f"it is a whole number from {low} to {high}")
        return number

    async def unless_gone(self, work: Callable[[], Awaitable[T]]) -> T:
        """Runs `work` and returns its result; cancels it when the client disconnects, since nobody would take the
        result, or when its key is revoked."""
        if self.holder.revoked:
            raise revoked()
        presence: Presence = self.request.scope.get(PRESENCE) or Presence()
        self.holder.waiting.add(presence.let_go)
        try:
            with presence.waited_for():
                return await work()
        finally:
            self.holder.waiting.discard(presence.let_go)
        if self.holder.revoked:
            raise revoked()
        raise ClientGone


@contextmanager
def of_query(name: str) -> Generator[None, None, None]:
    """Turns a problem with the field `/name` into a problem with the query's parameter of this name."""
    try:
        yield
    except Problem as problem:
        raise bad_parameter(name, problem.body.detail.removeprefix(f"/{name}: ")) from None


Handler = Callable[[Call], Awaitable[Response]]


def answer(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, "application/json")
