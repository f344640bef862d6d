"""The end of a run: waits until every message is claimed and settled, then records the final state in the history."""

from collections.abc import AsyncIterator
from typing import Any

import trio
from attrs import define

from .caller import Caller
from .clockwork import tell_fires
from .crew import Crew, ms_of
from .message import digest_of, name_of
from .plan import GROUPS, QUEUES, ladder_of
from .readers import found, page_of

_STILL = 3
"""Checks in a row that must find nothing left: a transaction in doubt may be committed late."""
_REST = 0.5


@define
class Drain:
    crew: Crew
    caller: Caller

    async def run(self, seconds: float) -> bool:
        """Waits until nothing is left, stops the consumers and records the final state; returns whether it could."""
        still = 0
        left = "nobody has looked"
        with trio.move_on_after(seconds):
            while still < _STILL:
                left = await self._left()
                still = 0 if left else still + 1
                await trio.sleep(_REST)
        drained = still >= _STILL
        self.crew.consuming = False
        with trio.move_on_after(30) as scope:
            await self._look()
        drained = drained and not scope.cancelled_caught
        self.crew.journal.write("drained", "ok" if drained else "fail", reason="" if drained else left)
        return drained

    async def _left(self) -> str:
        """The first thing found that is left; empty when everything is done."""
        if self.crew.operating:
            return "an operator is at work"
        for topic, groups in GROUPS.items():
            if pending := (await self._ask(f"/v1/topics/{topic}"))["pending"]:
                return f"{topic}: {pending} pending"
            for group in groups:
                state = await self._ask(f"/v1/topics/{topic}/groups/{group}")
                lags = sum(queue["lag"] for queue in (*state["queues"], *state["retry_queues"]))
                left = {name: state[name] for name in ("backlog", "claims", "claimed", "parked")}
                left |= {"retries": sum(state["retries"]), "lag": lags}
                if any(left.values()):
                    return f"{topic}/{group}: {left}"
        return ""

    async def _look(self) -> None:
        journal = self.crew.journal
        await tell_fires(self.crew, self.caller)
        for topic, groups in GROUPS.items():
            for queue in range(QUEUES):
                async for message in self._stream(topic, queue):
                    journal.write("stream", "ok", **found(message))
            journal.write("counts", "ok", topic=topic, facts=await self._ask(f"/v1/topics/{topic}"))
            for group in groups:
                path = f"/v1/topics/{topic}/groups/{group}"
                async for letter in self.caller.pages(f"{path}/dead", "messages"):
                    facts = {"attempts": len(letter["attempts"]), "rungs": len(ladder_of(topic))}
                    names: dict[str, Any] = {"name": name_of(letter), "id": letter["id"], "digest": digest_of(letter)}
                    names["due_ms"] = ms_of(letter["dead_at"])
                    journal.write("dead", "ok", topic=topic, group=group, facts=facts, **names)
                journal.write("counts", "ok", topic=topic, group=group, facts=await self._ask(path))

    async def _stream(self, topic: str, queue: int) -> AsyncIterator[dict[str, Any]]:
        offset = 0
        while True:
            page = await self._ask(page_of(topic, queue, offset))
            for message in page["messages"]:
                yield message
            if not page["messages"]:
                return
            offset = page["next_offset"]

    async def _ask(self, path: str) -> Any:
        while True:
            answer = await self.caller.ask("GET", path)
            if answer.phase == "ok":
                return answer.data
            await trio.sleep(_REST)
