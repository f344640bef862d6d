"""`test_silence` over the asynchronous loop: an event loop that stood still for longer than its client lives."""

from typing import Any

import anyio
import pytest
from attrs import evolve

from support.claimed import TERMS, TIME, record
from support.each_loop import on_each_loop
from support.scripted_server import Answer, Request, ScriptedServer, problem
from tarry.client.async_consumption import AsyncConsumption
from tarry.client.transport import TaskTransport


@on_each_loop
@pytest.mark.parametrize("lost", [True, False])
async def test_what_it_holds_is_asked_for_first(script: ScriptedServer, *, lost: bool) -> None:
    records = [record(n, n) for n in (1, 2)]
    extended = 0
    handed_out: list[Any] = []
    before: list[list[Any]] = []

    def respond(request: Request) -> Answer:
        nonlocal extended
        verb = request.path.rsplit("/", 1)[-1]
        if verb == "claim":
            given, records[:] = list(records), []
            return Answer(200, {"claim": "c1" if given else None, "lease_until": TIME, "messages": given})
        if verb == "extend":
            extended += 1
            before.append(list(handed_out))
            return problem(409, result="lease_lost") if lost else Answer(200, {"lease_until": TIME})
        return Answer(200, {"acked": 1, "retried": 1, "dead": 0})

    script.respond = respond
    clock = [0.0]
    transport = TaskTransport(script.url, timeout=5, deadline=5)
    consuming = AsyncConsumption(transport, [evolve(TERMS, wait=0.01)], clock=lambda: clock[0])

    async def take() -> None:
        while (delivery := await consuming.next()) is not None:
            handed_out.append(delivery.body)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consuming.live)
        assert await consuming.next() is not None
        while consuming.loops[0]._pulse.at <= 0:
            await anyio.sleep(0.001)
        clock[0] = 16.0
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        consuming.loops[0]._leases.ring()
        with anyio.fail_after(10):
            while consuming.loops[0].stock.waiting:
                await anyio.sleep(0.001)
        await consuming.close()
    await transport.close()
    assert extended == 1
    assert before == [[]], "handed out before the server was asked"
    assert handed_out == ([] if lost else [2])
