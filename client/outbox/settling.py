"""The block of `settle`: what it wants of a connection, and what stands for its cursor when there is no work to do."""

from collections.abc import Awaitable
from typing import Any, NoReturn, Protocol


class Connection(Protocol):
    """A DB-API connection."""

    def cursor(self) -> Any: ...
    def commit(self) -> object: ...
    def rollback(self) -> object: ...


class AsyncConnection(Protocol):
    """A connection whose calls are awaited."""

    def cursor(self) -> Any:
        """A cursor, or what gives one when it is awaited."""
        ...

    def commit(self) -> Awaitable[object]: ...
    def rollback(self) -> Awaitable[object]: ...


class DoneBefore(BaseException):
    """Ends the block of `settle`, and goes no further. No `Exception`: it is not for the handler to meet."""


class NoCursor:
    """In place of a cursor when the work was done before: it is false, and whoever uses it is at the end of the block.

    So the work is done once, whether the block asks or not.
    """

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> NoReturn:
        raise DoneBefore

    def __enter__(self) -> NoReturn:
        raise DoneBefore

    def __exit__(self, *error: object) -> None: ...

    def __iter__(self) -> NoReturn:
        raise DoneBefore
