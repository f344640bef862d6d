"""Calls every verb of a real server while the connection to its database is cut at the verb's own COMMIT.

A lane is one verb on its own topic: it creates what the verb needs, arranges a cut at the verb's next COMMIT, calls the
verb over HTTP, and checks the answer against the tables. The lanes run side by side.
"""

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import httpx
import trio

from support.stores import Tables
from tarry.bench.proxy import Moment, Proxy

HOUR = "1h"


def hexed(text: str) -> bytes:
    """A text as it appears in the store's statements."""
    return text.encode().hex().encode()


@attrs.define
class Doubted:
    """A server, the proxy between it and its database, and direct access to the tables."""

    http: httpx.AsyncClient
    proxy: Proxy
    tables: Tables
    numbers: "itertools.count[int]" = attrs.field(factory=itertools.count)
    published: Counter[str] = attrs.field(factory=Counter)
    """How many messages were published, by topic."""
    alone: trio.Lock = attrs.field(factory=trio.Lock)
    """Held by a lane that cuts a publish: two publishes may share a transaction, whose COMMIT is cut only once."""

    async def call(self, method: str, path: str, json: object = None, *, status: int = 200) -> Any:
        answer = await self.http.request(method, path, json=json)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer.json()

    async def topic(self, name: str, **settings: Any) -> None:
        await self.call("PUT", f"/v1/topics/{name}", settings, status=201)

    async def publish(self, topic: str, body: str, **rest: Any) -> Mapping[str, Any]:
        answer = await self.call("POST", f"/v1/topics/{topic}/messages", {"body": body, **rest}, status=201)
        assert not answer.get("replayed"), "a first answer says that it is a second"
        self.published[topic] += 1
        return dict(answer)

    async def claim(self, topic: str, client: str, **rest: Any) -> Mapping[str, Any]:
        path = f"/v1/topics/{topic}/groups/{topic}/claim"
        answer = await self.call("POST", path, {"client": client, "wait": "20s", **rest})
        assert all(message["attempt"] == 1 for message in answer["messages"]), answer
        return dict(answer)

    def count(self, table: str, where: str) -> int:
        return int(self.tables.rows(f"SELECT COUNT(*) FROM `{table}` WHERE {where}")[0][0])

    def token(self, lane: str) -> str:
        return f"{lane}-{next(self.numbers)}"

    def places(self, token: str) -> list[tuple[int, str]]:
        """The ids of the messages with this body, and the tables that they are in."""
        body = f"x'{hexed(chr(34) + token + chr(34)).decode()}'"
        return [
            (id_, table)
            for table in ("message", "delay")
            for (id_,) in self.tables.rows(f"SELECT id FROM {table} WHERE body = {body}")
        ]


Lane = Callable[[Doubted, Moment, int], Awaitable[None]]
"""Makes one cut of a verb; the last argument is the number of the cut."""


async def publish(d: Doubted, moment: Moment, number: int) -> None:
    token = d.token("publish")
    async with d.alone:
        cut = d.proxy.cut(moment, hexed(token))
        receipt = await d.publish("publish", token, **({"idempotency_key": token} if number % 2 else {}))
    assert cut.done.is_set()
    assert d.places(token) == [(int(receipt["id"]), "message")]


async def schedule(d: Doubted, moment: Moment, number: int) -> None:
    token = d.token("schedule")
    async with d.alone:
        cut = d.proxy.cut(moment, hexed(token))
        receipt = await d.publish("schedule", token, delay=HOUR, **({"idempotency_key": token} if number % 2 else {}))
    assert cut.done.is_set()
    assert d.places(token) == [(int(receipt["id"]), "delay")]


async def cancel(d: Doubted, moment: Moment, number: int) -> None:
    token = d.token("cancel")
    receipt = await d.publish("cancel", token, delay="20s" if number % 2 else HOUR)
    cut = d.proxy.cut(moment, b"INTO cancelled ")
    answer = await d.call("DELETE", f"/v1/messages/{receipt['id']}")
    assert answer["result"] == "cancelled"
    assert cut.done.is_set()
    assert d.places(token) == []
    assert d.count("cancelled", f"id = {receipt['id']}") == 1


async def reschedule(d: Doubted, moment: Moment, number: int) -> None:
    receipt = await d.publish("reschedule", d.token("reschedule"), delay=HOUR)
    cut = d.proxy.cut(moment, b"UPDATE delay SET ")
    answer = await d.call("PATCH", f"/v1/messages/{receipt['id']}", {"delay": f"{number + 2}h"})
    assert cut.done.is_set()
    assert answer["id"] == receipt["id"]
    assert d.count("delay", f"id = {receipt['id']} AND due = deliver_at AND due <> id >> 21") == 1


async def promote(d: Doubted, moment: Moment, number: int) -> None:
    token = d.token("promote")
    cut = d.proxy.cut(moment, b"INTO message ", b"DELETE /*+ INDEX(delay PRIMARY) */ FROM delay ")
    receipt = await d.publish("promote", token, delay="200ms")
    answer = await d.claim("promote", "client")
    assert [message["body"] for message in answer["messages"]] == [token]
    assert d.places(token) == [(int(receipt["id"]), "message")]
    await d.call("POST", f"/v1/claims/{answer['claim']}/ack")
    if receipt["state"] == "published":  # it took so long that the message was due already
        d.proxy.cuts.remove(cut)
        await promote(d, moment, number)
        return
    assert cut.done.is_set()


async def claim(d: Doubted, moment: Moment, _number: int) -> None:
    tokens, client = [d.token("claim"), d.token("claim")], d.token("claimer")
    for token in tokens:
        await d.publish("claim", token)
    cut = d.proxy.cut(moment, b"INTO claim ", hexed(client))
    answer = await d.claim("claim", client, max=2)
    assert cut.done.is_set()
    assert [message["body"] for message in answer["messages"]] == tokens
    held = "client LIKE 'claimer%' AND group_id = (SELECT id FROM consumer_group WHERE name = 'claim')"
    assert d.count("claim", held) == 1, "a claim that nobody holds"
    assert (await d.call("POST", f"/v1/claims/{answer['claim']}/ack"))["acked"] == 2


async def ack(d: Doubted, moment: Moment, number: int) -> None:
    client = d.token("acker")
    for _ in range(2):
        await d.publish("ack", d.token("ack"))
    answer = await d.claim("ack", client, max=2)
    some = {"ids": [answer["messages"][0]["id"]]} if number % 2 else None
    cut = d.proxy.cut(moment, *((b"UPDATE claim SET",) if some else (b"INTO delivery ", hexed(client))))
    acked = await d.call("POST", f"/v1/claims/{answer['claim']}/ack", some)
    assert cut.done.is_set()
    assert acked["acked"] == (1 if some else 2)
    if some:
        await d.call("POST", f"/v1/claims/{answer['claim']}/ack")
    assert d.count("delivery", f"client = '{client}' AND outcome = x'0101'") == 1


async def fail(d: Doubted, moment: Moment, _number: int) -> None:
    client = d.token("failer")
    receipt = await d.publish("fail", d.token("fail"))
    answer = await d.claim("fail", client)
    cut = d.proxy.cut(moment, b"INTO retry ", hexed(client))
    failed = await d.call("POST", f"/v1/claims/{answer['claim']}/fail", {"reason": "no", "retry_after": HOUR})
    assert cut.done.is_set()
    assert (failed["retried"], failed["dead"]) == (1, 0)
    assert d.count("retry", f"message_id = {receipt['id']}") == 1


async def _die(d: Doubted, topic: str) -> str:
    receipt = await d.publish(topic, d.token(topic))
    answer = await d.claim(topic, "client")
    failed = await d.call("POST", f"/v1/claims/{answer['claim']}/fail", {})
    assert failed["dead"] == 1
    return str(receipt["id"])


async def die(d: Doubted, moment: Moment, _number: int) -> None:
    client = d.token("loser")
    receipt = await d.publish("die", d.token("die"))
    answer = await d.claim("die", client)
    cut = d.proxy.cut(moment, b"INTO dead ", hexed(client))
    failed = await d.call("POST", f"/v1/claims/{answer['claim']}/fail", {})
    assert cut.done.is_set()
    assert (failed["retried"], failed["dead"]) == (0, 1)
    assert d.count("dead", f"id = {receipt['id']}") == 1
    await d.call("POST", "/v1/topics/die/groups/die/dead/purge", {"ids": [receipt["id"]]})


async def redrive(d: Doubted, moment: Moment, _number: int) -> None:
    id_ = await _die(d, "redrive")
    cut = d.proxy.cut(moment, b"SET redriven", b"FROM dead ")
    answer = await d.call("POST", "/v1/topics/redrive/groups/redrive/dead/redrive", {"ids": [id_]})
    assert cut.done.is_set()
    assert answer["redriven"] == 1
    again = await d.claim("redrive", "client")
    assert [message["id"] for message in again["messages"]] == [id_]
    await d.call("POST", f"/v1/claims/{again['claim']}/ack")


async def seek(d: Doubted, moment: Moment, number: int) -> None:
    cut = d.proxy.cut(moment, b"INTO seek ")
    answer = await d.call("POST", "/v1/topics/seek/groups/seek/seek", {"to": {"offset": number % 3, "queue": 0}})
    assert cut.done.is_set()
    assert answer["queues"] == [{"queue": 0, "offset": number % 3}]


async def replay(d: Doubted, moment: Moment, number: int) -> None:
    cut = d.proxy.cut(moment, b"SET redriven", b"FROM replay ")
    path = "/v1/topics/replay/groups/replay"
    answer = await d.call("POST", f"{path}/replay", {"from": 0, "to": 1 + number % 3, "queue": 0})
    assert cut.done.is_set()
    assert answer["replayed"] == 1 + number % 3
    seen = 0
    while seen < 1 + number % 3:
        again = await d.claim("replay", "client")
        seen += len(again["messages"])
        await d.call("POST", f"/v1/claims/{again['claim']}/ack")
    assert seen == 1 + number % 3


async def read(d: Doubted, moment: Moment, _number: int) -> None:
    token = d.token("read")
    await d.publish("read", token)
    cut = d.proxy.cut(moment, b"UPDATE reader SET position")
    answer = await d.claim("read", "reader")
    assert cut.done.is_set()
    assert [message["body"] for message in answer["messages"]] == [token], "the reader has skipped one"


LANES: dict[str, Lane] = {
    lane.__name__: lane
    for lane in (publish, schedule, cancel, reschedule, promote, claim, ack, fail, die, redrive, seek, replay, read)
}


_SETTINGS: dict[str, dict[str, Any]] = {"die": {"ladder": []}, "redrive": {"ladder": []}, "read": {"kind": "broadcast"}}


async def make_ready(d: Doubted) -> None:
    """Creates the topics, and the messages that some verbs need."""
    for name in LANES:
        settings = _SETTINGS.get(name, {})
        await d.topic(name, **settings)
    await d.call("POST", "/v1/topics/read/groups/read/claim", {"client": "reader"})
    for name in ("seek", "replay"):
        for _ in range(4):
            await d.publish(name, d.token(name))
    answer = await d.claim("replay", "client", max=4)
    await d.call("POST", f"/v1/claims/{answer['claim']}/ack")
    await d.call("PUT", "/v1/topics/seek/groups/seek", {}, status=201)
