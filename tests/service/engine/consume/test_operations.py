"""Long work of an operator's goes in batches: what is done is told, also when the next one fails."""

import pytest

from tarry.service.engine.consume.operations import Worked, _batches
from tarry.store.errors import Locked, StoreError, Unavailable


@pytest.mark.parametrize("error", [Locked("held"), Unavailable("away")])
@pytest.mark.parametrize("done", [0, 2])
async def test_what_is_done_is_told_when_the_next_batch_fails(error: StoreError, done: int) -> None:
    counts = [200] * done

    async def step(_limit: int) -> tuple[int, bool]:
        if not counts:
            raise error
        return counts.pop(), False

    if done:
        assert await _batches(step, None) == Worked(400, more=True)
    else:
        with pytest.raises(type(error)):
            await _batches(step, None)
