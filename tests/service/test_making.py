"""How a node is put together: part by part, with nothing set afterwards, and on a short way from due to stored."""

import ast
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.spied import spied
from tarry.service import ground, making, node, serve
from tarry.store.timers import timers

LONGEST = 50


def functions(module: Any) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        one
        for one in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize("module", [making, ground, node])
def test_each_function_is_short_and_has_no_lambda(module: Any) -> None:
    for one in functions(module):
        assert (one.end_lineno or 0) - one.lineno < LONGEST, one.name
        assert not any(isinstance(inner, ast.Lambda) for inner in ast.walk(one)), one.name


def test_who_has_the_signals_and_sockets_makes_no_part() -> None:
    assert "engine" not in inspect.getsource(serve)


@pytest.mark.parametrize("module", [making, ground, node])
def test_nothing_is_set_of_a_part_that_is_made(module: Any) -> None:
    """`self.part = ...` makes one; `part.other = ...` would be a wire that no constructor shows."""
    for one in functions(module):
        for statement in ast.walk(one):
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            for target in (inner for wide in targets for inner in ast.walk(wide)):
                if isinstance(target, ast.Attribute):
                    assert isinstance(target.value, ast.Name), ast.unparse(target)
                    assert target.value.id == "self", ast.unparse(target)


async def test_few_frames_lie_between_the_dispatcher_and_the_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part once. The backend's own, and trio's, are not counted: they run the transaction."""
    caught: list[list[tuple[str, str]]] = []
    promote: Callable[..., Any] = timers.Promotion.promote

    async with spied(tmp_path / "tarry.db") as server:
        write = server.backend.write

        async def caught_write(work: Any, *, heavy: bool = False) -> Any:
            caught.append([(Path(one.filename).name, one.name) for one in traceback.extract_stack()])
            return await write(work, heavy=heavy)

        async def caught_promote(*args: Any, **kwargs: Any) -> Any:
            caught.append([(Path(one.filename).name, one.name) for one in traceback.extract_stack()])
            return await promote(*args, **kwargs)

        monkeypatch.setattr(
            type(server.backend), "write", lambda _self, work, *, heavy=False: caught_write(work, heavy=heavy)
        )
        monkeypatch.setattr(timers.Promotion, "promote", caught_promote)
        await server.publish(await server.topic(), b"1", deliver_at=server.ms + 5)
        caught.clear()
        server.ms += 5
        server.node.pending.wake.set()
        await server.node.dispatcher.turned()
    outside = next(frames for frames in caught if ("dispatcher.py", "_fire") in frames)
    inside = next(frames for frames in caught if ("timers.py", "promote_pieces") in frames)
    before = outside[outside.index(("dispatcher.py", "_fire")) : -1]
    behind = inside[inside.index(("store.py", "work")) : -1]
    assert [*before, *behind, ("timers.py", "promote")] == [
        ("dispatcher.py", "_fire"),
        ("promotion.py", "promote"),
        ("store.py", "promote_some"),
        ("store.py", "work"),
        ("timers.py", "promote_pieces"),
        ("timers.py", "promote"),
    ]
