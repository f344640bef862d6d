"""Objects that each process needs for itself, and that a fork would share unnoticed.

Two processes on one connection read each other's answers, and two makers of ids in the same state make the same ids.
"""

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Something that is made at once, and again when a fork first asks for it. Safe to share between threads."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: T | None = make()
        self._lock = threading.Lock()
        _everything.add(self)

    def get(self) -> T:
        """The object of this process."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def _begin_anew(self) -> None:
        # Not closed: a pool's lock may be held by a thread that is not in this process.
        self._made = None
        self._lock = threading.Lock()


_everything: WeakSet[PerProcess[Any]] = WeakSet()


def _forked() -> None:
    with warnings.catch_warnings():
        # Sockets that nobody refers to any more are closed here, and stay open in the parent.
        warnings.simplefilter("ignore", ResourceWarning)
        for one in list(_everything):
            one._begin_anew()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):  # where there is no fork, nothing is to be done
    os.register_at_fork(after_in_child=_forked)


class Owner:
    """The process in which something was begun: a fork does not have its threads."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def here(self) -> bool:
        """Whether this is that process."""
        return os.getpid() == self.pid
