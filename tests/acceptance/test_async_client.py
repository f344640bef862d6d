"""`AsyncTarry` against a real server, on both event loops: nothing lost, nothing kept, nothing twice."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from support.server import start_server
from tarry.client import AsyncTarry, LeaseLost, NotFound, TooLate

ALL = 300


async def life(url: str) -> None:
    """Publish, cancel, reschedule, claim, settle, look."""
    async with AsyncTarry(url) as tarry:
        assert await tarry.ready()
        later = await tarry.publish("orders", {"order": 7}, delay="48h", key="order-7")
        moved = await tarry.reschedule(later.id, delay="1h")
        assert moved.deliver_at < later.deliver_at
        assert await tarry.cancel(later.id) == "cancelled"
        with pytest.raises(NotFound):
            await tarry.cancel("1")
        now = await tarry.publish("orders", b"\x00", content_type="image/png")
        with pytest.raises(TooLate):
            await tarry.cancel(now.id)
        claim = await tarry.claim("orders", "billing", wait="10s")
        assert claim is not None
        assert claim.messages[0].body == b"\x00"
        assert await tarry.extend(claim, "2m") > claim.lease_until
        assert (await tarry.fail(claim, reason="no", retry_after=0)).retried == 1
        with pytest.raises(LeaseLost):
            await tarry.ack(claim)
        again = await tarry.claim("orders", "billing", wait="10s")
        assert again is not None
        assert again.messages[0].attempt == 2
        assert await tarry.ack(again) == 1
        assert (await tarry.message(now.id))["life"][-1]["what"] == "acked"
        assert (await tarry.pull("orders")).next_offset == 1
        assert [topic["topic"] for topic in await tarry.topics()] == ["orders"]
        assert [letter async for letter in tarry.dead("orders", "billing")] == []


async def consumers(url: str) -> None:
    """Loops that are cancelled, left and ended in every way; one that stays gets all the rest, at the first attempt."""
    seen: list[tuple[int, int]] = []

    async def note(message: Any) -> None:
        seen.append((message.body, message.attempt))

    async with AsyncTarry(url) as tarry:
        await tarry.publish_many("t", ({"body": number} for number in range(ALL)))
        with anyio.CancelScope() as scope:
            async with tarry.consume("t", "g", wait=0) as messages:
                async for message in messages:
                    if len(seen) == 5:
                        scope.cancel()
                    async with message:
                        await checkpoint()
                        await note(message)
        async for message in tarry.consume("t", "g", wait=0):
            async with message:
                await note(message)
            break
        with anyio.CancelScope() as scope:

            async def cancelled(message: Any) -> None:
                if len(seen) > 50:
                    scope.cancel()
                await anyio.sleep(0.001)
                await note(message)

            await tarry.run("t", "g", cancelled, workers=8, pass_message=True, wait=0)
        stop = anyio.Event()

        async def rest(message: Any) -> None:
            await note(message)
            if len(seen) == ALL:
                stop.set()

        with anyio.fail_after(60):
            await tarry.run("t", "g", rest, workers=8, pass_message=True, stop=stop)
        assert sorted(seen) == [(number, 1) for number in range(ALL)]
        group = await tarry.group("t", "g")
        assert (group["backlog"], group["dead"]) == (0, 0)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.cases(1)
def test_all_calls_and_loops(tmp_path: Path, backend: str) -> None:
    with start_server(tmp_path) as server:
        anyio.run(life, server.url, backend=backend)
        anyio.run(consumers, server.url, backend=backend)
