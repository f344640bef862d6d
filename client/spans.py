"""OpenTelemetry's spans of what the client does, if opentelemetry-api is installed; else nothing, at no cost.

The only file of the client that knows OpenTelemetry. Names and attributes follow its conventions for messaging: `send`,
`receive`, `process` and `settle`, each with the topic. The context of a `send` goes in the message's headers as
`traceparent`, and is the parent of its `process`, whenever and wherever that is. If the message must be the same when
it is sent again, the context goes in the headers of the HTTP request instead, and the server puts it into the message.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import evolve

from .records import Claim, Draft, Message, Receipt, Timer

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

try:
    import_module("opentelemetry.trace.propagation.tracecontext")
except ModuleNotFoundError:  # the extra `otel` is not there
    on = False
else:
    on = True

if TYPE_CHECKING or on:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    _carrier = TraceContextTextMapPropagator()

_PARENT = "traceparent"
_SYSTEM = "messaging.system"
_OPERATION = "messaging.operation.name"
_TYPE = "messaging.operation.type"
_TOPIC = "messaging.destination.name"
_GROUP = "messaging.consumer.group.name"
_ID = "messaging.message.id"
_COUNT = "messaging.batch.message_count"

T = TypeVar("T")
R = TypeVar("R", Receipt, list[Receipt], Timer, str)


class Sent:
    """A publish under way; this class is for one without a span, and does nothing."""

    alone = False
    """Whether its call must not share a request, since the context goes in the request's headers."""

    def __enter__(self) -> "Sent":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def carried(self, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """The headers, with the context of this span among them."""
        return headers

    def carrying(self, messages: Iterable[Draft | dict[str, Any]]) -> Iterable[Draft | dict[str, Any]]:
        """The same for many messages."""
        return messages

    def done(self, sent: R) -> R:
        """Notes on the span what was published, or its id, and returns it."""
        return sent


class _SentSpan(Sent):
    def __init__(self, span: "Span", *, beside: bool) -> None:
        self._span = span
        self._own = {} if beside else ways()
        self.alone = beside and span.get_span_context().is_valid

    def carried(self, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
        if not self._own or (headers is not None and _PARENT in headers):
            return headers  # no span is recorded, or its context goes in the request, or the user gave one
        return self._own if headers is None else {**headers, **self._own}

    def carrying(self, messages: Iterable[Draft | dict[str, Any]]) -> Iterator[Draft | dict[str, Any]]:
        for message in messages:
            if isinstance(message, Draft):
                yield evolve(message, headers=self.carried(message.headers))
            elif isinstance(headers := message.get("headers"), Mapping | None):
                yield {**message, "headers": self.carried(cast("Mapping[str, str] | None", headers))}
            else:
                yield message  # its error is raised where it is read

    def done(self, sent: R) -> R:
        if isinstance(sent, list):
            self._span.set_attribute(_COUNT, len(sent))
        else:
            self._span.set_attribute(_ID, sent if isinstance(sent, str) else sent.id)
        return sent


_NOBODY = Sent()


def sending(topic: str, *, again: bool = False, schedule: str | None = None) -> AbstractContextManager[Sent]:
    """Around a publish. If it may come `again`, under the user's own idempotency key, the context goes in the request's
    headers: with another context in it, the message would be another one to the server. So it does for a `schedule`,
    whose message the server makes."""
    return _sending(topic, again or schedule is not None, schedule) if on else _NOBODY


@contextmanager
def _sending(topic: str, beside: bool, schedule: str | None) -> Generator[Sent, None, None]:
    with _span("send", "send", topic, None, trace.SpanKind.PRODUCER) as span:
        if schedule is not None:
            span.set_attribute("tarry.schedule", schedule)
        yield _SentSpan(span, beside=beside)


def later(call: Callable[[], T]) -> Callable[[], T]:
    """Has a call that is made later belong to the trace that is under way now."""
    if not on:
        return call
    then = context.get_current()

    def made() -> T:
        token = context.attach(then)
        try:
            return call()
        finally:
            context.detach(token)

    return made


def received(claim: Claim | None, since: int) -> None:
    """Records a claim that brought messages, asked for at `since` (nanoseconds since 1970). One that brought none
    leaves no span: a consumer that waits asks all the time."""
    if not on or claim is None or not claim.messages:
        return
    attributes = _attributes("receive", "receive", claim.topic, claim.group) | {_COUNT: len(claim.messages)}
    links = [
        trace.Link(parent, {_ID: message.id})
        for message in claim.messages
        if (parent := trace.get_current_span(_context_of(message)).get_span_context()).is_valid
    ]
    name = f"receive {claim.topic}"
    _tracer().start_span(name, kind=trace.SpanKind.CLIENT, attributes=attributes, links=links, start_time=since).end()


class Processing:
    """A handler's work on a message, between `begin` and `end`."""

    def __init__(self, message: Message, group: str) -> None:
        attributes = _attributes("process", "process", message.topic, group)
        attributes |= {_ID: message.id, "tarry.attempt": message.attempt}
        kind, parent = trace.SpanKind.CONSUMER, _context_of(message)
        self._span = _tracer().start_span(f"process {message.topic}", parent, kind, attributes)
        self._before = context.get_current()
        context.attach(trace.set_span_in_context(self._span))

    def end(self, error: BaseException | None) -> None:
        """Ends the span, with the error if there was one."""
        # Restores the context and resets no token: a block may end in another context than it has begun in.
        if trace.get_current_span() is self._span:
            context.attach(self._before)
        if error is not None:
            _note(self._span, error)
        self._span.end()


def processing(message: Message, group: str) -> Processing | None:
    """Begins a span that is the current one of this thread or task; None without OpenTelemetry."""
    return Processing(message, group) if on else None


def settling(verb: str, claim: Claim | str, count: int | None = None) -> AbstractContextManager[object]:
    """Around an ack or a fail, of `count` messages if that is known."""
    return _settling(verb, claim, count) if on else _NOBODY


@contextmanager
def _settling(verb: str, claim: Claim | str, count: int | None) -> Generator[None, None, None]:
    topic, group = ("", None) if isinstance(claim, str) else (claim.topic, claim.group)
    with _span(verb, "settle", topic, group, trace.SpanKind.CLIENT) as span:
        if count is not None:
            span.set_attribute(_COUNT, count)
        yield


def settled(verb: str, claim: Claim, count: int, since: int, error: BaseException | None) -> None:
    """Records an ack or a fail that was sent at `since` together with others."""
    if not on:
        return
    attributes = _attributes(verb, "settle", claim.topic, claim.group) | {_COUNT: count}
    name = f"{verb} {claim.topic}"
    span = _tracer().start_span(name, kind=trace.SpanKind.CLIENT, attributes=attributes, start_time=since)
    if error is not None:
        _note(span, error)
    span.end()


def ways() -> dict[str, str]:
    """Headers that name to the server the span that is under way here."""
    found: dict[str, str] = {}
    if on:
        _carrier.inject(found)
    return found


def now() -> int:
    """Nanoseconds since 1970; 0 without OpenTelemetry."""
    return time.time_ns() if on else 0


def _tracer() -> "trace.Tracer":
    return trace.get_tracer("tarry.client")


def _attributes(name: str, kind: str, topic: str, group: str | None = None) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {_SYSTEM: "tarry", _OPERATION: name, _TYPE: kind}
    if topic:
        attributes[_TOPIC] = topic
    if group is not None:
        attributes[_GROUP] = group
    return attributes


def _context_of(message: Message) -> "Context":
    """The context that the message carries, and nothing of what is under way here."""
    return _carrier.extract(message.headers, context.Context())


@contextmanager
def _span(name: str, kind: str, topic: str, group: str | None, role: "trace.SpanKind") -> Generator["Span", None, None]:
    """Around a part of the work: a span that is the current one of this thread or task."""
    attributes = _attributes(name, kind, topic, group)
    with _tracer().start_as_current_span(f"{name} {topic}".rstrip(), kind=role, attributes=attributes) as span:
        try:
            yield span
        except Exception as error:  # OpenTelemetry records it with its text
            span.set_attribute("error.type", type(error).__name__)
            raise


def _note(span: "Span", error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__name__)
    span.record_exception(error)
    span.set_status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}")
