"""Decorators for calls of the API, written once as coroutines: `Tarry` runs them, in `AsyncTarry` they are awaited."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, overload

from .calls import Call, Page
from .coroutines import drive
from .transport import Transport

P = ParamSpec("P")
T = TypeVar("T")


class Direct:
    """A front whose calls are done when they return."""


class Awaited:
    """A front whose calls are awaited."""


class api_call(Generic[P, T]):  # noqa: N801 - a decorator
    """A method of both fronts, written as a coroutine that awaits only the transport, or the cursor of an outbox."""

    def __init__(self, work: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        @wraps(work)
        def direct(front: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return drive(work(front, *args, **kwargs))

        self._awaited: Any = work
        self._direct: Any = direct

    @overload
    def __get__(self, front: Direct, kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, front: Awaited, kind: type[Any]) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, front: None, kind: type[Direct]) -> Callable[Concatenate[Any, P], T]: ...
    @overload
    def __get__(self, front: None, kind: type[Awaited]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...
    def __get__(self, front: object, kind: type[Any]) -> Any:
        return (self._direct if issubclass(kind, Direct) else self._awaited).__get__(front, kind)


class api_pages(Generic[P, T]):  # noqa: N801 - a decorator
    """A method of both fronts that gives items page by page, written as a function that makes the first page's call."""

    def __init__(self, first: Callable[Concatenate[Any, P], Call[Page[T]]]) -> None:
        @wraps(first)
        def direct(front: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
            return _each(front._transport, first(front, *args, **kwargs))

        @wraps(first)
        def awaited(front: Any, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
            pages: AsyncIterator[T] = front._transport.pages(first(front, *args, **kwargs))
            return pages

        self._direct = _told(direct, first, Iterator)
        self._awaited = _told(awaited, first, AsyncIterator)

    @overload
    def __get__(self, front: Direct, kind: type[Any]) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, front: Awaited, kind: type[Any]) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, front: None, kind: type[Direct]) -> Callable[Concatenate[Any, P], Iterator[T]]: ...
    @overload
    def __get__(self, front: None, kind: type[Awaited]) -> Callable[Concatenate[Any, P], AsyncIterator[T]]: ...
    def __get__(self, front: object, kind: type[Any]) -> Any:
        return (self._direct if issubclass(kind, Direct) else self._awaited).__get__(front, kind)


def _told(method: Any, first: Callable[..., Any], items: Any) -> Any:
    """Gives the method a signature that returns such `items`, and not the call for a page of them."""
    told = signature(first)
    page: Any = get_args(told.return_annotation)[0]
    method.__signature__ = told.replace(return_annotation=items[get_args(page)[0]])
    return method


def _each(transport: Transport[Any], first: Call[Page[T]]) -> Iterator[T]:
    """Yields the items; each page is asked for when the items of the one before have been taken."""
    following: Call[Page[T]] | None = first
    while following is not None:
        page = drive(transport.send(following))
        yield from page.items
        following = page.next
