"""One request on its way to the node: its parts, checked, and its answer."""

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
"""An id carries no later time, and may be made up to a second later than its message is due."""
_LONGEST_CLAIM = 4096
"""Characters; one of as many ranges as there may be has fewer."""

B = TypeVar("B", bound=Body)
T = TypeVar("T")


@define
class Call:
    """A request and what it takes to serve it. What is wrong with it is raised as a `Problem`."""

    request: Request
    lifecycle: Lifecycle
    settings: Settings
    exposition: Callable[[], Awaitable[bytes]]
    """The metrics, as text."""
    holder: Holder
    """Who asks."""
    activity: Activity
    """What this server did in the last minutes."""

    @property
    def node(self) -> Node:
        """Whoever does what is asked. Raises `Stopping` before the store has answered."""
        return self.lifecycle.node

    def check(self, parameters: Collection[str]) -> None:
        """Names in the path are such as may be; the query has these parameters alone, each at most once."""
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
        """The trace that the request is a part of: a message that it makes, and that names none, carries it."""
        if (parent := self.request.header(b"traceparent")) is None:
            return {}
        states = b",".join(self.request.headers(b"tracestate")).decode("latin-1")
        return trace_of({PARENT: parent, STATE: states})

    # Path and query, which have been checked

    def part(self, name: str) -> str:
        """What stands in the path at this place, such as `{topic}`."""
        return self.request.parts[name]

    async def topic(self) -> Topic:
        """The topic of the path, which is there. Raises `UnknownTopic`."""
        return await self.node.directory.topic(self.part("topic"), create=False)

    async def group(self) -> Group:
        """The group of the path, which is there. Raises `UnknownTopic` and `UnknownGroup`."""
        return await self.node.directory.group(await self.topic(), self.part("group"), create=False)

    @property
    def message_id(self) -> int:
        """The message of the path."""
        id_ = parse_id(self.part("id"))
        if id_ is None:
            raise self.unknown_message()
        return id_

    def unknown_message(self) -> Problem:
        """404 for the message of the path."""
        return Problem("unknown-message", f"there is no message {self.part('id')[:100]!r}")

    # Who asks, where the path does not say of what

    def demand(self, verb: str, topic: str) -> None:
        """Raises a `Problem`, 403, where the key's scopes do not reach this topic, which the body names."""
        if not self.holder.scopes.reach(verb, topic):
            raise forbidden(self.holder, scope_text(verb, topic))

    async def own_message(self, verb: str) -> int:
        """The message of the path; for a key whose scopes do not reach its topic there is none."""
        id_ = self.message_id
        scopes = self.holder.scopes
        if not scopes.reach_all(verb):
            topic = await self.node.store.read(tracing.topic_of, id_)
            if topic is None or not scopes.reach(verb, topic):
                raise self.unknown_message()
        return id_

    async def own_claim(self) -> str:
        """The claim of the path; for a key whose scopes do not reach its group there is none."""
        name = self.part("claim")
        await self.check_claim(name)
        return name

    async def check_claim(self, name: str) -> None:
        """There may be a claim of this name, and the key's scopes reach its group. Raises a `Problem`."""
        if not (len(name) <= _LONGEST_CLAIM and name.isascii() and name.isprintable()):
            raise Problem("unknown-claim", "there is no such claim")
        scopes = self.holder.scopes
        if not scopes.reach_all("consume") and name != "null":
            group = await self.node.groups.group_of(name)
            if group is None or not scopes.reach("consume", group.topic.name, group.name):
                raise Problem("unknown-claim", f"there is no claim {name[:100]!r}")

    async def own_client(self, client: str) -> str:
        """The client; it is this key's from now on. Raises a `Problem`, 403, where it is another's."""
        if not await self.node.client_owners.may_use(client, self.holder):
            why = "is one of a server's own" if is_own(client) else "belongs to another key"
            detail = f"the client {client[:100]!r} {why}: choose a name of your own"
            raise Problem("forbidden", detail, executed=False)
        return client

    @property
    def query(self) -> Mapping[str, str]:
        """The query's parameters."""
        return self.request.query

    def query_time(self, name: str) -> int | None:
        """A time of the query, Unix milliseconds; None when it is not given."""
        with of_query(name):
            return None if name not in self.query else self.time(self.query[name], f"/{name}")

    # Body

    async def read(self, type_: type[B]) -> B:
        """The body of a request that carries no messages."""
        return decode(await read_body(self.request, type_.limit), type_)

    # Values

    def deliver_at(self, delay: int | str | None, deliver_at: str | None, pointer: str = "") -> int | None:
        """The time asked for, None for now. A delay counts from here."""
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
        """A window of time, Unix milliseconds; one that is over only of a request that comes `again`. Raises a
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
        """Where a group begins: whether behind the latest, and else from which time on."""
        if value is None or value in ("earliest", "latest"):
            return value == "latest", None
        return False, self.time(value, pointer, or_else='"earliest", "latest" or ')

    def time(self, value: str, pointer: str, *, or_else: str = "") -> int:
        """Unix milliseconds, not before 1970: of a search, or of what is to end. Times that are told are as given."""
        try:
            return max(parse_time(value), 0)
        except ValueError as error:
            raise bad_field(pointer, f"say {or_else}a time; {error}" if or_else else str(error)) from None

    def duration(self, value: int | str, pointer: str, *, high: int, low: int = 0) -> int:
        """Milliseconds between two bounds."""
        try:
            ms = parse_duration(value)
        except ValueError as error:
            raise bad_field(pointer, str(error)) from None
        if not low <= ms <= high:
            raise bad_field(pointer, f"it lies between {format_duration(low)} and {format_duration(high)}")
        return ms

    def wait(self, value: int | str | None, pointer: str) -> int:
        """Milliseconds that are left of a wait: it counts from the request's arrival."""
        wait = self.duration(0 if value is None else value, pointer, high=self.settings.max_wait)
        arrived: float | None = self.request.scope.get(ARRIVED)
        return wait if arrived is None else max(0, wait - round(1000 * (trio.current_time() - arrived)))

    def number(self, value: str | None, name: str, *, default: int, low: int, high: int) -> int:
        """A whole number of the query, between two bounds."""
        if value is None:
            return default
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
        if not low <= number <= high:
            raise bad_parameter(name, f"it is a whole number from {low} to {high}")
        return number

    async def unless_gone(self, work: Callable[[], Awaitable[T]]) -> T:
        """The answer to `work`, which is cancelled when the client goes away: nobody is left to take what it gives; or
        when its key is revoked."""
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
    """What is wrong with the value at `/name` is wrong with a parameter of the query, not with a field."""
    try:
        yield
    except Problem as problem:
        raise bad_parameter(name, problem.body.detail.removeprefix(f"/{name}: ")) from None


Handler = Callable[[Call], Awaitable[Response]]


def answer(body: Any, status: int = 200) -> Response:
    """JSON."""
    return Response(msgspec.json.encode(body), status, "application/json")
