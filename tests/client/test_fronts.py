"""`Tarry` and `AsyncTarry` offer the same: of one with threads is done what with the other is awaited."""

import inspect
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, assert_type

from tarry.client import AsyncTarry, DeadLetter, Receipt, Tarry


def public(front: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(getattr(front, name))
        for kind in reversed(front.__mro__[:-1])
        for name in vars(kind)
        if callable(getattr(front, name)) and (name == "__init__" or not name.startswith("_"))
    }


def test_both_have_the_same_methods_with_the_same_arguments() -> None:
    threads, tasks = public(Tarry), public(AsyncTarry)
    assert list(threads) == list(tasks)
    for name, signature in threads.items():
        own = [(p.name, p.kind, p.default) for p in signature.parameters.values() if p.name != "sleep"]
        other = [(p.name, p.kind, p.default) for p in tasks[name].parameters.values() if p.name != "sleep"]
        assert own == other, name


def test_everything_but_the_loops_is_awaited() -> None:
    awaited = {name for name in public(AsyncTarry) if inspect.iscoroutinefunction(getattr(AsyncTarry, name))}
    assert set(public(AsyncTarry)) - awaited == {
        "__init__",
        "clients",
        "consume",
        "dead",
        "dead_letters",
        "find",
        "fires",
        "schedules",
        "timers",
    }


def of_threads(tarry: Tarry) -> None:
    """Not run: what type checkers make of it."""
    assert_type(tarry.publish("t", {}, delay="1h"), Receipt)
    assert_type(tarry.dead("t", "g"), Iterator[DeadLetter])
    tarry.publish("t")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    tarry.publish("t", {}, delay=b"1h")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tarry.publish("t", {}, dellay="1h")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def of_tasks(tarry: AsyncTarry) -> None:
    """Not run either."""
    assert_type(await tarry.publish("t", {}, delay="1h"), Receipt)
    assert_type(tarry.dead("t", "g"), AsyncIterator[DeadLetter])
    publishing = assert_type(tarry.publish("t", {}), Coroutine[Any, Any, Receipt])
    await publishing


def test_help_tells_what_each_gives() -> None:
    for name in ("publish", "dead"):
        assert inspect.getdoc(getattr(Tarry, name)) == inspect.getdoc(getattr(AsyncTarry, name)) is not None
    assert inspect.signature(Tarry.dead).return_annotation == Iterator[DeadLetter]
    assert inspect.signature(AsyncTarry.dead).return_annotation == AsyncIterator[DeadLetter]
