"""An actor that now and then moves a group's cursor back or redrives its dead letters."""

from random import Random

import trio
from attrs import define

from .caller import Caller
from .crew import Crew
from .plan import OPERATED, ORDERS, QUEUES

_REST = 4.0
"""Seconds between two operations."""
_BACK = 50
"""How many messages the cursor goes back at most."""


@define
class Operator:
    crew: Crew
    caller: Caller

    async def run(self) -> None:
        random = self.crew.random("operator")
        while self.crew.publishing:
            await trio.sleep(_REST)
            if self.crew.publishing:  # else messages that the drain saw finished would come again
                await self.operate(random)
        self.crew.operating = False

    async def operate(self, random: Random) -> None:
        """Redrives the dead letters, or moves a cursor back."""
        group = f"/v1/topics/{ORDERS}/groups/{OPERATED}"
        if random.random() < 0.5:
            await self._do("redrive", f"{group}/dead/redrive", {})
            return
        state = await self.caller.ask("GET", group)
        if state.phase == "ok":
            queue = random.randrange(QUEUES)
            at = next(place["offset"] for place in state.data["queues"] if place["queue"] == queue)
            offset = max(0, at - random.randrange(_BACK))
            to = {"to": {"queue": queue, "offset": offset}}
            await self._do("seek", f"{group}/seek", to, queue=queue, offset=offset)

    async def _do(self, op: str, path: str, request: object, **place: int) -> None:
        journal, call = self.crew.journal, self.crew.journal.call()
        journal.write(op, "invoke", call=call, topic=ORDERS, group=OPERATED, **place)
        answer = await self.caller.ask("POST", path, request)
        journal.write(op, answer.phase, call=call, topic=ORDERS, group=OPERATED, reason=answer.reason, **place)
