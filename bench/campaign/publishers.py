"""Publishers of the load: now and later, single and in batches, with and without idempotency keys, ordered by key."""

from typing import Any

import trio
from attrs import define, field

from .caller import Answer, Caller
from .crew import Crew, ms_of
from .message import Message, make
from .plan import ACCOUNTS, ORDERS

KEYS = 8
"""Ordering keys of a publisher."""
_ENDING = 0.25
"""The share of requests whose messages expire."""
_FAR = 3 * 3_600_000
"""Milliseconds; longer than a run and than clocks are set ahead."""


@define
class Publisher:
    who: str
    crew: Crew
    caller: Caller
    made: int = 0

    async def run(self) -> None:
        """Runs until publishing ends."""
        random = self.crew.random(self.who)
        while self.crew.publishing:
            await self.crew.gate.wait()
            size = random.choice((1, 1, 5, 20))
            delay = random.choice((0, 0, random.randrange(1, 3000)))
            ends, stale = 0, False
            if random.random() < _ENDING:  # soon, or after the end of the run
                stale = random.random() < 0.4
                left = random.randrange(1500, 4000) if stale or random.random() < 0.5 else _FAR
                ends = round(self.crew.store_ms) + delay + 7 * size + left
            messages = [
                make(random, self._name(), ORDERS, delay_ms=delay and delay + 7 * n, ends_ms=ends, stale=stale)
                for n in range(size)
            ]
            key = f"{self.who}-{self.made}" if random.random() < 0.5 and not ends else None
            answer = await self.publish(messages, key)
            while answer.phase == "unknown" and key is not None and self.crew.publishing:
                answer = await self.publish(messages, key)
            if answer.phase == "ok":
                if key is not None and random.random() < 0.02:
                    await self.publish(messages, key)  # a repeat with the same key must give the same answer
                if delay and not ends:  # it could be rescheduled past its expiry, which is refused
                    self._offer(messages, answer)
            await trio.sleep(size / self.crew.rate)

    def _name(self) -> str:
        self.made += 1
        return f"{self.who}-{self.made}"

    def _offer(self, messages: list[Message], answer: Answer) -> None:
        """Offers some waiting messages to the actors that cancel and reschedule."""
        assert self.crew.offered is not None
        for message, receipt in list(zip(messages, answer.data["messages"], strict=True))[::3]:
            try:
                self.crew.offered.send_nowait((message.name, receipt["id"], ms_of(receipt["deliver_at"])))
            except trio.WouldBlock:
                return

    async def publish(self, messages: list[Message], key: str | None) -> Answer:
        """Publishes the messages in one request and records it."""
        journal, call, topic = self.crew.journal, self.crew.journal.call(), messages[0].topic
        now = int(journal.now_ms)
        told: list[dict[str, Any]] = [
            {
                "call": call,
                "topic": topic,
                "name": m.name,
                "key": m.key or "",
                "seq": m.seq,
                "digest": m.digest,
                "ends_ms": m.ends_ms,
            }
            for m in messages
        ]
        for line, message in zip(told, messages, strict=True):
            journal.write("publish", "invoke", **line, due_ms=now + message.delay_ms if message.delay_ms else 0)
        request: dict[str, object] = {"messages": [message.draft for message in messages]}
        if key is not None:
            request["idempotency_key"] = key
        answer = await self.caller.ask("POST", f"/v1/topics/{topic}/messages", request)
        receipts = answer.data["messages"] if answer.phase == "ok" else [None] * len(messages)
        for line, receipt in zip(told, receipts, strict=True):
            known = {} if receipt is None else {"id": receipt["id"], "due_ms": ms_of(receipt["deliver_at"])}
            journal.write("publish", answer.phase, **line, **known, node=answer.node, reason=answer.reason)
        return answer


@define
class OrderedPublisher(Publisher):
    """Publishes the messages of a key in sequence: the next request only when the last is known to be accepted."""

    seqs: dict[str, int] = field(factory=dict[str, int])

    async def run(self) -> None:
        random = self.crew.random(self.who)
        while self.crew.publishing:
            await self.crew.gate.wait()
            key = f"{self.who}-key-{random.randrange(KEYS)}"
            messages: list[Message] = []
            for _ in range(random.choice((1, 1, 3))):
                seq = self.seqs[key] = self.seqs.get(key, 0) + 1
                messages.append(make(random, self._name(), ACCOUNTS, key=key, seq=seq))
            token = f"{self.who}-{self.made}"
            while (await self.publish(messages, token)).phase != "ok":
                if not self.crew.publishing:
                    return
            await trio.sleep(len(messages) / self.crew.rate)
