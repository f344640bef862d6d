"""Checks what `run` and `consume` are given: the handler of each topic, and the terms on which it is consumed. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, cast

from attrs import evolve, frozen

from . import arguments
from .claim_size import ahead, claim_size, grown
from .delivery import Delivery
from .durations import Duration, milliseconds
from .identity import Identity
from .stock import Terms, terms_for

Handler = Callable[[Any], object]
Topics = Sequence[tuple[str, Handler]]

_LONGEST = 20.0
"""Most seconds of a long poll when several topics have one each: proxies wait for as long."""


@frozen
class Work:
    """Topics that the same workers serve."""

    handlers: Mapping[str, Handler]
    """The handler of each topic."""
    terms: Sequence[Terms]
    """The terms of each topic, in the same order."""
    workers: int
    whole: bool
    """Whether a handler gets the message, and not only its body."""
    signals: bool | None
    """Whether signals end the work, see `Ends`."""
    drain: float | None
    """Seconds that the end waits for handlers at most."""

    def handle(self, delivery: Delivery) -> object:
        """Calls the handler of a message."""
        return self.handlers[delivery.topic](delivery if self.whole else delivery.body)


def work_of(
    identity: Identity,
    topic: str | Topics,
    handler: Handler | None,
    workers: int,
    *,
    awaits: bool,
    whole: bool,
    signals: bool | None,
    drain: Duration | None,
    max_size: int | None,
    max_cached: int,
    max_cached_bytes: int,
    tags: Sequence[str] | None,
    **rest: Any,
) -> Work:
    """Checks the arguments of `run`. Raises `TypeError` and `ValueError`, which name what is wrong, before a call."""
    handlers = _handlers_of(topic, handler)
    for name, one in handlers.items():
        _refuse_idle(one, "handler" if isinstance(topic, str) else f"the handler of {name!r}", awaits=awaits)
    arguments.at_least_one(workers=workers, max_cached=max_cached, max_cached_bytes=max_cached_bytes)
    many = len(handlers)
    if max_cached < many:
        raise ValueError(f"max_cached is shared by the topics: {many} or more for {many} of them, not {max_cached}")
    cached = max_cached // many
    size = max_size or claim_size(workers, cached)
    terms = terms_for(
        identity,
        topic="",
        size=size,
        ahead=ahead(size, workers),
        most=max_size or grown(size, cached),
        max_messages=cached,
        max_bytes=max(1, max_cached_bytes // many),
        tags=arguments.tags(tags),
        **rest,
    )
    most = None if drain is None else milliseconds(drain, "drain") / 1000
    return Work(handlers, _of_each(list(handlers), terms), workers, whole, signals, most)


def terms_of(
    identity: Identity, topic: str | Sequence[str], size: int, tags: Sequence[str] | None, **rest: Any
) -> list[Terms]:
    """The terms of each topic given to `consume`. Raises `TypeError` and `ValueError`, which name what is wrong."""
    terms = terms_for(identity, topic="", size=size, ahead=size // 2, tags=arguments.tags(tags), **rest)
    return _of_each(_topics_of(topic), terms)


def _of_each(topics: Sequence[str], terms: Terms) -> list[Terms]:
    """The terms of each topic. The long polls of several last longer, so that together they are no more requests."""
    many = len(topics)
    longest = 0.0 if many == 1 else min(many * terms.wait, _LONGEST)
    return [evolve(terms, topic=name, longest=longest) for name in topics]


def _topics_of(topic: str | Sequence[str]) -> list[str]:
    """The topics that `consume` is given: one, or several, each once."""
    topics = [topic] if isinstance(topic, str) else list(topic)
    if not topics:
        raise ValueError("topic: the list is empty, so nothing would ever come: name a topic")
    for index, name in enumerate(topics):
        if not isinstance(cast("object", name), str):
            raise TypeError(f"topic[{index}]: the name of a topic, not {name!r}")
        if name in topics[:index]:
            raise ValueError(f"topic[{index}]: {name!r} is there twice: name a topic once")
    return topics


def _handlers_of(topic: str | Topics, handler: Handler | None) -> dict[str, Handler]:
    """The handler of each topic."""
    if isinstance(topic, str):
        if handler is None:
            raise TypeError(
                f"handler: say what handles the messages of {topic!r}, handler=..., or give a list of pairs"
            )
        return {topic: _called(handler, "handler")}
    if handler is not None:
        raise TypeError("handler: in a list each topic has its own, [(topic, handler), ...]: leave handler= out")
    if isinstance(topic, Mapping) or not isinstance(cast("object", topic), Iterable):
        raise TypeError(f"topic: a name, or a list of pairs [(topic, handler), ...], not a {type(topic).__name__}")
    handlers: dict[str, Handler] = {}
    for index, pair in enumerate(cast("Iterable[object]", topic)):
        where = f"topic[{index}]"
        if not isinstance(pair, tuple | list) or len(cast("Sequence[object]", pair)) != 2:
            raise TypeError(f"{where}: a pair (topic, handler), not {pair!r}")
        name, one = cast("tuple[object, Handler]", pair)
        if not isinstance(name, str):
            raise TypeError(f"{where}: a pair begins with the name of its topic, not with {name!r}")
        if name in handlers:
            raise ValueError(f"{where}: {name!r} is there twice: give a topic one handler")
        handlers[name] = _called(one, f"{where}: the handler of {name!r}")
    if not handlers:
        raise ValueError("topic: the list is empty, so nothing would ever be done: name a topic, [(topic, handler)]")
    return handlers


def _called(handler: Handler, what: str) -> Handler:
    if not callable(cast("object", handler)):
        raise TypeError(f"{what}: a function that is called with each message, not {handler!r}")
    return handler


def _refuse_idle(handler: Handler, what: str, *, awaits: bool) -> None:
    """Raises `TypeError` for a handler whose call does nothing, so that its messages would be acked unhandled."""
    plain = handler
    while isinstance(plain, partial):
        plain = plain.func
    faces = (plain, getattr(type(plain), "__call__", None))  # noqa: B004  # looked into, not whether it is there
    if any(isgeneratorfunction(face) or isasyncgenfunction(face) for face in faces):
        raise TypeError(f"{what}: it is a generator, which does nothing when it is called: take out its yield")
    if not awaits and any(iscoroutinefunction(face) for face in faces):
        raise TypeError(f"{what}: an async function is nothing that threads can run: give it to AsyncTarry.run")
