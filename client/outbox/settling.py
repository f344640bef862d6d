"""Parts of `settle`: the connection that it needs, and the stand-in for a cursor when the work was done before."""

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
        """A cursor, or an awaitable of one."""
        ...

    def commit(self) -> Awaitable[object]: ...
    def rollback(self) -> Awaitable[object]: ...


class DoneBefore(BaseException):
    """Ends the block of `settle`, and goes no further. No `Exception`, so that handlers do not catch it."""


class NoCursor:
    """Takes the place of a cursor when the work was done before: it is falsy, and using it ends the block.

    So the work is done once, whether the block checks or not.
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
