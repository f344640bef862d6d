"""What `run` takes for a handler: calling it has to do the work, or give what is awaited to do it."""

from collections.abc import Callable
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction


def refuse_idle(handler: Callable[..., object], *, awaits: bool) -> None:
    """Raises `TypeError` for a handler whose call does nothing, so that its messages would be acked unhandled."""
    plain = handler
    while isinstance(plain, partial):
        plain = plain.func
    faces = (plain, getattr(type(plain), "__call__", None))  # noqa: B004  # looked into, not whether it is there
    if any(isgeneratorfunction(face) or isasyncgenfunction(face) for face in faces):
        raise TypeError("handler: it is a generator, which does nothing when it is called: take out its yield")
    if not awaits and any(iscoroutinefunction(face) for face in faces):
        raise TypeError("handler: an async function is nothing that threads can run: give it to AsyncTarry.run")
