"""A step that is taken over and over, and fails: the log has its name, and nothing of what it is called with."""

from functools import partial

import pytest
import structlog
import trio

from tarry.service.rounds import every
from tarry.store.errors import Unavailable


class Step:
    """One that is no function."""

    async def __call__(self) -> None:
        raise Unavailable("away")


async def look_after(_node: str) -> None:
    raise Unavailable("away")


@pytest.mark.parametrize(
    ("step", "name"), [(partial(look_after, "half of the server"), "look_after"), (Step(), "Step")]
)
async def test_the_log_has_the_name_of_a_step_that_fails(step: Step, name: str, autojump_clock: trio.abc.Clock) -> None:
    with structlog.testing.capture_logs() as logs, trio.move_on_after(1.5):
        await every(1, step)
    assert [(line["event"], line.get("step")) for line in logs] == [("round_failed", name)] * 2
