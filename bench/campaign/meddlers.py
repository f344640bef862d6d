"""Actors that cancel and reschedule waiting messages near their due time, in a race with promotion."""

import trio
from attrs import define

from .caller import Answer, Caller
from .crew import Crew, ms_of
from .plan import ORDERS

_FAR = 3.0
"""The most seconds until an offered message is due, unless a clock was set."""


@define
class Meddler:
    who: str
    crew: Crew
    caller: Caller
    waiting: "trio.MemoryReceiveChannel[tuple[str, str, int]]"

    async def run(self) -> None:
        """Runs until no more messages are offered."""
        random = self.crew.random(self.who)
        async for name, id_, due in self.waiting:
            if not self.crew.publishing:
                continue
            left = (due - self.crew.store_ms) / 1000
            if random.random() < 0.7:  # close to its due time
                await trio.sleep(min(_FAR, max(0, left + random.uniform(-0.06, 0.03))))
            if random.random() < 0.4:
                await self._reschedule(name, id_, random.randrange(1, 1500))
            else:
                answer = await self._cancel(name, id_)
                if answer.phase == "unknown":
                    await self._cancel(name, id_)

    async def _cancel(self, name: str, id_: str) -> Answer:
        journal, call = self.crew.journal, self.crew.journal.call()
        journal.write("cancel", "invoke", call=call, name=name, id=id_, topic=ORDERS)
        answer = await self.caller.ask("DELETE", f"/v1/messages/{id_}")
        journal.write(
            "cancel",
            answer.phase,
            call=call,
            name=name,
            id=id_,
            topic=ORDERS,
            reason=_reason(answer),
            node=answer.node,
        )
        return answer

    async def _reschedule(self, name: str, id_: str, delay: int) -> None:
        journal, call = self.crew.journal, self.crew.journal.call()
        asked = int(journal.now_ms) + delay
        journal.write("reschedule", "invoke", call=call, name=name, id=id_, topic=ORDERS, due_ms=asked)
        answer = await self.caller.ask("PATCH", f"/v1/messages/{id_}", {"delay": delay})
        due = ms_of(answer.data["deliver_at"]) if answer.phase == "ok" else asked
        journal.write(
            "reschedule", answer.phase, call=call, name=name, id=id_, topic=ORDERS, due_ms=due,
            reason=_reason(answer), node=answer.node,
        )  # fmt: skip


def _reason(answer: Answer) -> str:
    return "not_found" if answer.reason == "unknown-message" else answer.reason
