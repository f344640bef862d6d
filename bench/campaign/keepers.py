"""Actors that set timers by key, set them again near their time, and cancel them; each key has one actor."""

from random import Random
from typing import Any

import trio
from attrs import define, evolve, field

from .caller import Answer, Caller
from .crew import Crew, ms_of
from .message import Message, make
from .plan import ORDERS

KEYS = 4
_OVER = ("too_late", "cancelled", "unknown-timer")
_TRIES = 20
"""How often a request is sent while its answer is lost; after that its outcome is unknown."""


@define
class Keeper:
    who: str
    crew: Crew
    caller: Caller
    armed: dict[str, tuple[Message, str, int]] = field(factory=dict[str, tuple[Message, str, int]])
    """By key: the message that waits or waited, its id and its due time."""
    keys: list[str] = field(factory=list[str])
    made: int = 0

    async def run(self) -> None:
        """Runs until publishing ends."""
        random = self.crew.random(self.who)
        self.keys = [f"{self.who}-timer-{n}" for n in range(KEYS)]
        while self.crew.publishing:
            await self.crew.gate.wait()
            key = self.keys[random.randrange(KEYS)]
            if key in self.armed and random.random() < 0.5:  # close to its due time
                left = (self.armed[key][2] - self.crew.store_ms) / 1000
                await trio.sleep(min(2, max(0, left + random.uniform(-0.06, 0.03))))
            if key in self.armed and random.random() < 0.3:
                await self._cancel(key)
            else:
                await self._arm(key, random)
            await trio.sleep(random.uniform(0, 4 / self.crew.rate))

    async def _arm(self, key: str, random: Random) -> None:
        """Sets the timer of a key: the new message replaces the waiting one, or with `keep` does not."""
        self.made += 1
        message = make(random, f"{self.who}-{self.made}", ORDERS, delay_ms=random.randrange(20, 2000))
        mode = random.choice(("replace", "replace", "keep"))
        journal, call, before = self.crew.journal, self.crew.journal.call(), self.armed.get(key)
        asked = int(journal.now_ms) + message.delay_ms
        line: dict[str, Any] = {"call": call, "topic": ORDERS, "name": message.name, "digest": message.digest}
        journal.write("publish", "invoke", **line, due_ms=asked)
        past: dict[str, Any] = {}
        if before is not None:
            past = {"call": call, "topic": ORDERS, "name": before[0].name, "id": before[1]}
            journal.write("replace", "invoke", **past)
        request = message.draft | {"mode": mode, "idempotency_key": message.name}
        answer = await self._until_known("PUT", key, request)
        data: dict[str, Any] = answer.data if answer.phase == "ok" else {}
        kept = before is not None and data.get("id") == before[1]
        phase = "fail" if kept else answer.phase
        known = {"id": data["id"], "due_ms": ms_of(data["deliver_at"])} if phase == "ok" else {"due_ms": asked}
        journal.write("publish", phase, **line, **known, node=answer.node, reason="kept" if kept else answer.reason)
        if before is not None:
            took = phase == "ok" and data.get("replaced") == before[1]
            journal.write("replace", "ok" if took else "fail" if phase == "ok" else phase, **past, node=answer.node)
        if phase == "ok":
            self.armed[key] = (message, data["id"], ms_of(data["deliver_at"]))
        elif phase == "unknown":
            self._leave(key)

    async def _cancel(self, key: str) -> None:
        message, id_, _ = self.armed[key]
        journal = self.crew.journal
        line: dict[str, Any] = {"call": journal.call(), "topic": ORDERS, "name": message.name, "id": id_}
        journal.write("cancel", "invoke", **line)
        answer = await self._until_known("DELETE", key, None)
        reason = "not_found" if answer.reason == "unknown-timer" else answer.reason
        journal.write("cancel", answer.phase, **line, reason=reason, node=answer.node)
        if answer.phase == "unknown":
            self._leave(key)
        elif answer.phase == "ok" or answer.reason in _OVER:  # otherwise the timer still waits
            del self.armed[key]

    def _leave(self, key: str) -> None:
        """Replaces a key by a new one, since it is unknown which message waits there."""
        self.armed.pop(key, None)
        self.keys[self.keys.index(key)] = f"{key}-"

    async def _until_known(self, method: str, key: str, request: object) -> Answer:
        """Repeats a request while its outcome is unknown; the idempotency key or the single timer makes this safe."""
        path, doubted = f"/v1/topics/{ORDERS}/timers/{key}", False
        answer = Answer("fail", None, "")
        for _ in range(_TRIES):
            answer = await self.caller.ask(method, path, request)
            if answer.phase == "ok" or answer.reason in _OVER or (answer.phase == "fail" and not doubted):
                return answer
            doubted = doubted or answer.phase == "unknown"  # a later refusal says nothing about the earlier request
        return evolve(answer, phase="unknown")
