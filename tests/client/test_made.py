"""`Tarry` and `AsyncTarry` cannot drift: their calls are made one from the other, and both offer the same."""

import inspect

from support.made_api import API, made
from tarry.client import AsyncTarry, Tarry
from tarry.client.async_transport import AsyncTransport


def test_what_is_made_is_up_to_date() -> None:
    remedy = "run `PYTHONPATH=.tree:tests .venv/bin/python -P -m support.made_api`"
    assert API.read_text("utf-8") == made(), remedy


def public(front: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for kind in reversed(front.__mro__[:-1])
        for name, member in vars(kind).items()
        if callable(member) and (name == "__init__" or not name.startswith("_"))
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
        *("__init__", "clients", "consume", "dead", "dead_letters", "find", "fires", "schedules", "timers")
    }
    assert inspect.isasyncgenfunction(AsyncTransport.pages)
