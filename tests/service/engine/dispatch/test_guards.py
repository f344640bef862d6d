"""Why a message waits for its guard, as the server tells that is asked."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.spied import NOW, spied
from tarry.service.engine.dispatch.guards import Guards
from tarry.store.records import Found

UNDECLARED = "it is not declared in this server's settings"


@pytest.fixture
async def guards(tmp_path: Path) -> AsyncIterator[Guards]:
    async with spied(tmp_path / "tarry.db") as server:
        yield server.node.guards


def message(*, due: int, guard: str | None = "unpaid") -> Found:
    return Found(
        id=7,
        topic="orders",
        state="scheduled",
        key="order-7",
        body=b"{}",
        accepted_at=NOW,
        deliver_at=due,
        life=(),
        guard=guard,
    )


async def test_of_one_that_another_server_has_it_is_told_late(guards: Guards) -> None:
    assert guards.why_held(message(due=NOW - 5_000)) is None, "it may be about to go"
    assert guards.why_held(message(due=NOW - 5_001)) == "this server has not asked its guard"
    assert guards.why_held(message(due=NOW - 5_001, guard=None)) is None


async def test_of_one_that_is_here_the_reason_is_told(guards: Guards) -> None:
    guards.put({7: "unpaid"})
    assert guards.why_held(message(due=NOW)) is None
    room = guards._rooms["unpaid"]
    room._set_aside(7, UNDECLARED)
    assert guards.why_held(message(due=NOW)) == UNDECLARED
    assert guards.why_held(message(due=NOW + 1)) is None, "it was moved"
