"""Consumers of the load: they ack most messages, fail some, extend claims, split acks, and ack some after the lease."""

from collections.abc import Sequence
from random import Random
from typing import Any

import trio
from attrs import define, frozen

from .caller import Answer, Caller
from .crew import Crew, Told, ms_of
from .message import POISON, STALE, digest_of, name_of

LEASE_MS = 2000
_LATER = 12_000
"""Milliseconds that a consumer puts off a message that expires soon."""
_AGAIN = 3
"""How often an ack is sent at most while its answer is lost."""


@frozen
class Held:
    """A claim that a consumer holds."""

    token: str
    messages: Sequence[Told]
    until: int


@define
class Consumer:
    who: str
    crew: Crew
    caller: Caller
    topic: str
    group: str
    ordered: bool

    async def run(self) -> None:
        """Runs until consuming ends."""
        random = self.crew.random(self.who)
        async with trio.open_nursery() as nursery:
            while self.crew.consuming:
                held = await self._claim(random.choice((1, 5, 20, 60)))
                if held is None:
                    continue
                if self.crew.publishing and random.random() < 0.03:
                    nursery.start_soon(self._forget, held)
                else:
                    await self._work(held, random)

    async def _claim(self, size: int) -> Held | None:
        journal, call = self.crew.journal, self.crew.journal.call()
        names: dict[str, Any] = {"call": call, "topic": self.topic, "group": self.group, "client": self.who}
        journal.write("claim", "invoke", **names)
        path = f"/v1/topics/{self.topic}/groups/{self.group}/claim"
        request = {"client": self.who, "max": size, "wait": 500, "lease": LEASE_MS}
        answer = await self.caller.ask("POST", path, request)
        if answer.phase != "ok":
            journal.write("claim", answer.phase, **names, reason=answer.reason, node=answer.node)
            return None
        if answer.data["claim"] is None:
            return None
        held = Held(answer.data["claim"], answer.data["messages"], ms_of(answer.data["lease_until"]))
        for place, message in enumerate(held.messages):
            journal.write(
                "claim", "ok", **names, **_names(message), token=held.token, place=place, due_ms=held.until,
                attempt=message["attempt"], queue=message["queue"], offset=message["offset"],
                key=message["ordering_key"] or "", digest=digest_of(message), node=answer.node,
            )  # fmt: skip
        return held

    async def _work(self, held: Held, random: Random) -> None:
        if random.random() < 0.05:
            await self._settle("extend", held, held.messages, {"lease": 2 * LEASE_MS}, lease=2 * LEASE_MS)
        good: list[Told] = []
        bad: list[Told] = []
        stale: list[Told] = []
        stopped: set[str] = set()  # keys with a failed message: later messages of the key leave the claim, too
        for message in held.messages:
            key = message["ordering_key"]
            if self.ordered and key in stopped:
                continue
            if name_of(message).endswith(STALE):
                stale.append(message)
            elif name_of(message).endswith(POISON) or random.random() < 0.03:
                bad.append(message)
                stopped.add(key)
            else:
                good.append(message)
        half = len(good) // 2 if random.random() < 0.1 else 0
        for part in (good[:half], good[half:]):
            if part:
                await self._ack(held, part)
        if bad:
            await self._fail(held, bad, random)
        if stale:  # so that it comes back after its expiry, if at all
            await self._settle("fail", held, stale, {"reason": "later", "retry_after": _LATER}, rest_ms=_LATER)

    async def _ack(self, held: Held, messages: Sequence[Told]) -> None:
        for _ in range(_AGAIN):
            if (await self._settle("ack", held, messages, {})).phase != "unknown":
                return

    async def _fail(self, held: Held, messages: Sequence[Told], random: Random) -> None:
        how = random.random()
        request: dict[str, Any] = {"reason": "not today"}
        more: dict[str, Any] = {}
        poisoned = any(name_of(message).endswith(POISON) for message in messages)
        if how < 0.1 and not self.ordered:
            request["retry_after"] = more["rest_ms"] = random.randrange(20, 400)
        elif how < 0.2 and not poisoned and not self.ordered:
            request["count"] = more["counted"] = False
        await self._settle("fail", held, messages, request, **more)

    async def _forget(self, held: Held) -> None:
        """Acts as a consumer that hangs: acks after the lease is over and others have got its messages."""
        await trio.sleep(min(2 * LEASE_MS, max(0, held.until - self.crew.store_ms)) / 1000 + 1)
        caller = self.crew.caller(f"{self.who}/forgotten/{held.token}")
        await self._settle("ack", held, held.messages, {}, caller=caller)
        await caller.close()

    async def _settle(
        self, verb: str, held: Held, messages: Sequence[Told], request: dict[str, Any], *,
        lease: int = 0, caller: Caller | None = None, **more: Any,
    ) -> Answer:  # fmt: skip
        journal, call = self.crew.journal, self.crew.journal.call()
        names: dict[str, Any] = {
            "call": call,
            "topic": self.topic,
            "group": self.group,
            "client": self.who,
            "token": held.token,
        }
        asked = int(journal.now_ms) + lease if lease else 0
        if asked:
            asked += 60_000  # it may be executed at any time before the answer, which tells the real end
        for message in messages:
            journal.write(verb, "invoke", **names, **_names(message), due_ms=asked, **more)
        if verb != "extend":
            request = request | {"ids": [message["id"] for message in messages]}
        answer = await (caller or self.caller).ask("POST", f"/v1/claims/{held.token}/{verb}", request)
        until = ms_of(answer.data["lease_until"]) if verb == "extend" and answer.phase == "ok" else 0
        for message in messages:
            journal.write(
                verb, answer.phase, **names, **_names(message), due_ms=until, reason=answer.reason,
                node=answer.node, **more,
            )  # fmt: skip
        return answer


def _names(message: Told) -> dict[str, str]:
    return {"name": name_of(message), "id": message["id"]}
