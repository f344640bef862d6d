"""Puts a load on several servers of one database while they come and go, and checks the results at the end.

Each call goes to a random server, and to another one when that is down, as behind a load balancer. Producers
publish at once, delayed and by key; consumers ack most messages, fail some, and read a broadcast topic.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import uuid4

import attrs

from support.worker_process import wait_for
from tarry.client import Claim, Message, Tarry
from tarry.client.errors import LeaseLost, Unavailable

T = TypeVar("T")
KEYS = [f"account-{number}" for number in range(6)]
AHEAD = 150
"""The most messages of a topic that are published and not yet settled."""


@attrs.frozen
class Given:
    """A hand-out of a message: when, in Unix milliseconds, by which server, and with which attempt."""

    at: float
    by: str
    attempt: int
    due: float


@attrs.define(eq=False)
class Load:
    """The load, which works within `running`; `told` lists faults as soon as they are seen."""

    seed: int
    told: list[str] = attrs.field(factory=list[str])
    given: dict[str, list[Given]] = attrs.field(factory=dict[str, list[Given]])
    """Hand-outs by the message's id."""
    failed: Counter[str] = attrs.field(factory=Counter[str])
    """How often a consumer failed a message, by its id."""
    doubts: Counter[str] = attrs.field(factory=Counter[str])
    """Calls without an answer, by kind."""
    served: Counter[tuple[str, str]] = attrs.field(factory=Counter[tuple[str, str]])
    """Calls that were answered, by server and kind."""
    settled: Counter[str] = attrs.field(factory=Counter[str])
    """Messages acked, by topic."""
    receipts: set[str] = attrs.field(factory=set[str])
    """The ids of published messages, without the broadcast topic's."""
    done: set[str] = attrs.field(factory=set[str])
    """The ids of acked messages."""
    published: Counter[str] = attrs.field(factory=Counter[str])
    read: list[int] = attrs.field(factory=list[int])
    """The messages that the reader of the broadcast topic got."""
    _living: dict[str, Tarry] = attrs.field(factory=dict[str, Tarry])
    _opened: list[Tarry] = attrs.field(factory=list[Tarry])
    _next: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(KEYS, 0))
    """By key: the number that must come next."""
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _quiet: threading.Event = attrs.field(factory=threading.Event)
    _over: threading.Event = attrs.field(factory=threading.Event)

    def add(self, name: str, url: str, key: str | None = None) -> None:
        """Adds a server that is up."""
        tarry = Tarry(url, deadline=0, timeout=20, key=key)
        self._opened.append(tarry)
        self._living = self._living | {name: tarry}

    def drop(self, name: str) -> None:
        """Removes a server that is down."""
        self._living = {other: tarry for other, tarry in self._living.items() if other != name}

    def any(self, what: str, call: Callable[..., T], *arguments: Any, **more: Any) -> tuple[str, T]:
        """Calls random servers until one answers; returns its name and the answer. `call` is a method of `Tarry`."""
        while True:
            name, tarry = random.choice(list(self._living.items()))
            try:
                answer = call(tarry, *arguments, **more)
            except Unavailable:
                with self._lock:
                    self.doubts[what] += 1
                time.sleep(0.02)
                continue
            with self._lock:
                self.served[name, what] += 1
            return name, answer

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs the load within the block; at the end waits until every published message is settled."""
        self.any("topic", Tarry.put_topic, "bank", ordered=True, queues=4)
        self.any("topic", Tarry.put_topic, "news", kind="broadcast")
        self._make_groups()
        begin = self.any("read", Tarry.claim, "news", "screens", client="hall", after="", start="earliest")
        assert begin[1] is None or not begin[1].messages
        consumers = [self._orders] * 3 + [self._bank] * 2
        producers = [self._produce_orders, self._produce_bank, self._produce_news]
        workers = [threading.Thread(target=one, args=(f"c{number}",)) for number, one in enumerate(consumers)]
        workers.append(threading.Thread(target=self._screens))
        makers = [threading.Thread(target=one) for one in producers]
        for thread in (*makers, *workers):
            thread.start()
        try:
            yield
            self._quiet.set()
            for thread in makers:
                thread.join(60)
            try:
                wait_for(lambda: bool(self.told) or self._all_there(), "all that was published is settled", 40)
            except AssertionError as error:
                raise AssertionError(self._what_lacks()) from error
        finally:
            self._quiet.set()
            self._over.set()
            for thread in (*makers, *workers):
                thread.join(60)
            for tarry in self._opened:
                tarry.close()

    def _all_there(self) -> bool:
        acked = all(self.settled[topic] >= self.published[topic] for topic in ("orders", "bank"))
        return acked and len(set(self.read)) >= self.published["news"]

    def _make_groups(self) -> None:
        """Creates the groups one after another, before their topics have messages.

        Two servers of the previous version, asked at once by the first clients of a group, could see it without its
        retry queues and count the published messages as expired.
        """
        self.any("topic", Tarry.put_topic, "orders")
        for topic in ("orders", "bank"):
            self.any("group", Tarry.put_group, topic, "crew", start="earliest")

    def _what_lacks(self) -> str:
        counts = f"settled {dict(self.settled)} of {dict(self.published)}, {len(set(self.read))} read"
        open_ = sorted(self.receipts - self.done)
        lives = {id_: self.any("look", Tarry.message, id_)[1]["life"] for id_ in open_[:5]}
        return f"after 40 s: {counts}, without an answer {dict(self.doubts)}, {len(open_)} messages not acked: {lives}"

    def wait_for_work(self, *names: str) -> None:
        """Waits until each of these servers has published and handed out many more messages than now."""
        before = self.served.copy()
        kinds = {"publish": 20, "publish in order": 3, "orders": 10, "bank": 5, "ack": 10, "read": 3}

        def done() -> bool:
            now = self.served.copy()
            return bool(self.told) or all(
                now[name, what] - before[name, what] >= many for name in names for what, many in kinds.items()
            )

        wait_for(done, f"{names} have work", 30)
        assert not self.told, self.told

    def _produce_orders(self) -> None:
        chance = random.Random(self.seed)
        while not self._quiet.is_set():
            if self.published["orders"] - self.settled["orders"] > AHEAD:
                self._quiet.wait(0.01)
                continue
            delay, key = chance.choice([None, None, "150ms", "700ms"]), uuid4().hex
            number = self.published["orders"]
            _, receipt = self.any("publish", Tarry.publish, "orders", number, delay=delay, idempotency_key=key)
            self.receipts.add(receipt.id)
            self.published["orders"] += 1

    def _produce_bank(self) -> None:
        number = 0
        while not self._quiet.is_set():
            if self.published["bank"] - self.settled["bank"] > AHEAD:
                self._quiet.wait(0.01)
                continue
            for name in KEYS:
                self._publish_in_order(name, number)
            number += 1

    def _publish_in_order(self, name: str, number: int) -> None:
        key = uuid4().hex
        what = {"ordering_key": name, "idempotency_key": key}
        _, receipt = self.any("publish in order", Tarry.publish, "bank", number, **what)
        self.receipts.add(receipt.id)
        self.published["bank"] += 1

    def _produce_news(self) -> None:
        while not self._quiet.wait(0.02):
            number, key = self.published["news"], uuid4().hex
            self.any("news", Tarry.publish, "news", number, idempotency_key=key)
            self.published["news"] += 1

    def _claim(self, topic: str, client: str) -> Claim | None:
        how = {"client": client, "max": 8, "wait": "300ms", "lease": "8s", "start": "earliest"}
        by, claim = self.any(topic, Tarry.claim, topic, "crew", **how)
        now = time.time() * 1000
        for message in claim.messages if claim else ():
            due = message.deliver_at.timestamp() * 1000
            with self._lock:
                self.given.setdefault(message.id, []).append(Given(now, by, message.attempt, due))
            if now < due:
                self.told.append(f"early by {due - now:.0f} ms: {message}")
        return claim

    def _orders(self, client: str) -> None:
        chance = random.Random(f"{self.seed} {client}")
        while not self._over.is_set():
            if (claim := self._claim("orders", client)) is None:
                continue
            bad = [one for one in claim.messages if one.attempt < 3 and chance.random() < 0.1]
            self._settle("orders", claim, [one for one in claim.messages if one not in bad], bad)

    def _bank(self, client: str) -> None:
        """Consumes one message after another; after a failed message the later ones of its key are no longer held."""
        chance = random.Random(f"{self.seed} {client}")
        while not self._over.is_set():
            self.any("renew", Tarry.renew, client)
            if (claim := self._claim("bank", client)) is None:
                continue
            gone: set[str] = set()
            for message in claim.messages:
                name = str(message.ordering_key)
                if name in gone:
                    continue
                with self._lock:
                    turn = self._next[name]
                if message.body > turn:
                    self.told.append(
                        f"out of order: {name} has {message.body}, and it is the turn of {turn}: {message}"
                    )
                bad = message.attempt < 3 and chance.random() < 0.06
                done = self._settle("bank", claim, [] if bad else [message], [message] if bad else [])
                if bad or not done:
                    gone.add(name)
                else:
                    with self._lock:
                        self._next[name] = max(self._next[name], message.body + 1)

    def _settle(self, topic: str, claim: Claim, good: list[Message], bad: list[Message]) -> bool:
        """Settles messages; returns whether the good ones are acked, which it looks up if the lease is lost."""
        try:
            if bad:
                self.any("fail", Tarry.fail, claim, bad, reason="not today")
                self.failed.update(one.id for one in bad)
            if good:
                self.any("ack", Tarry.ack, claim, good)
        except LeaseLost:
            self.doubts["settled late"] += 1
            if not all(self._was_acked(message) for message in good):
                return False
        with self._lock:
            self.settled[topic] += len(good)
            self.done.update(one.id for one in good)
        return True

    def _was_acked(self, message: Message) -> bool:
        """Whether the message was acked, since an ack whose answer was lost may have counted."""
        _, found = self.any("look", Tarry.message, message.id)
        return any(event["what"] == "acked" for event in found["life"])

    def _screens(self) -> None:
        """Reads the broadcast topic; each call confirms the messages of the one before."""
        after = ""
        while not self._over.is_set():
            self.any("renew", Tarry.renew, "hall")
            how = {"client": "hall", "max": 20, "wait": "200ms", "after": after}
            _, claim = self.any("read", Tarry.claim, "news", "screens", **how)
            if claim is None or not claim.messages:
                continue
            after = str(claim.next)
            self.read += [message.body for message in claim.messages]

    def check(self, life: Callable[[str], list[dict[str, Any]]]) -> Counter[str]:
        """Raises `AssertionError` if a message was lost, early, out of order, or came twice without a reason."""
        assert not self.told, self.told[:5]
        assert self.read == list(range(self.published["news"])), "a broadcast reader gets each message once, in order"
        assert all(turn * len(KEYS) == self.published["bank"] for turn in self._next.values())
        assert self.settled == {topic: self.published[topic] for topic in ("orders", "bank")}
        again: Counter[str] = Counter()
        for id_, given in self.given.items():
            if len(given) - 1 > self.failed[id_]:
                again += _reasons(life(id_), len(given) - 1)
        return again


def _reasons(life: list[dict[str, Any]], many: int) -> Counter[str]:
    """Counts the reasons why a message was handed out again, which must explain `many` times."""
    what = Counter(str(event["what"]) for event in life)
    reasons = Counter({reason: what[reason] for reason in ("failed", "lease_lost", "parked")})
    assert reasons.total() >= many, f"handed out {many} times more, for {reasons}: {life}"
    return reasons
