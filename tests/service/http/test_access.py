"""Who may ask for what: every operation wants a scope, and is refused before anything is read or done without it."""

import itertools
import json
import re
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

import httpx
import pytest
import structlog
import trio

from support.failing import failing
from support.in_one import in_one
from support.nodes import name_of
from support.spied import SpiedServer
from support.waiting import until
from tarry.service.access.tokens import make_token
from tarry.service.engine.dispatch.guards import Guards
from tarry.service.http.access import KNOW, Of
from tarry.service.http.routes import OPERATIONS, Operation
from tarry.store.errors import Unavailable
from tarry.store.operating import keys
from tarry.store.operating.keys import Key

PARTS = {"topic": "orders", "group": "billing", "id": "7", "queue": "0", "client": "c1", "claim": "1-1-1-1-1"}
CLOSED = [operation for operation in OPERATIONS if operation.need.of is not Of.NOTHING]
OPEN = {"/livez", "/readyz", "/", "/problems/{kind}", "/v1/session"}


class Ring:
    """Makes keys, and revokes them."""

    def __init__(self, server: SpiedServer) -> None:
        self._server = server

    async def make(self, name: str, *scopes: str) -> dict[str, str]:
        """The header that brings a new key."""
        return {"Authorization": f"Bearer {await self._server.make_key(name, *scopes)}"}

    async def revoke(self, name: str) -> None:
        await self._server.revoke_key(name)


@pytest.fixture
def ring(server: SpiedServer) -> Ring:
    return Ring(server)


def path_of(operation: Operation, parts: Mapping[str, str] = MappingProxyType(PARTS)) -> str:
    return re.sub("{(.+?)}", lambda part: parts.get(part[1], "x"), operation.path)


def asked(operation: Operation) -> dict[str, Any]:
    """What makes the call reach its handler: the parameters that it needs."""
    values = {"topic": "orders", "state": "scheduled", "key": "order-7"}
    return {one.name: values[one.name] for one in operation.query if one.required}


def kind(response: httpx.Response) -> str:
    assert response.headers["content-type"] == "application/problem+json"
    told: str = response.json()["type"]
    return told.removeprefix("/problems/")


class Unread(httpx.AsyncByteStream):
    """A body that must not be read."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""


def test_what_needs_no_key_tells_nothing() -> None:
    assert {one.path for one in OPERATIONS if one.need.of is Of.NOTHING} == OPEN


async def test_none_is_done_without_a_key(client: httpx.AsyncClient, server: SpiedServer, ring: Ring) -> None:
    await ring.make("somebody", "admin")
    server.asked.clear()
    wrong = [{}, {"Authorization": f"Bearer {make_token()}"}, {"Authorization": "Basic YTpi"}, {"Authorization": ""}]
    for operation, headers in itertools.product(CLOSED, wrong):
        response = await client.request(
            operation.method, path_of(operation), params=asked(operation), headers=headers, content=Unread()
        )
        assert (response.status_code, kind(response)) == (401, "unauthorized"), operation.name
        assert response.headers["www-authenticate"] == "Bearer"
    assert server.asked == []


def wanted(operation: Operation) -> list[str]:
    """Scopes of which each lets the call in."""
    return [
        {"consume": "consume:*/*"}.get(verb, f"{verb}:*")
        if operation.need.of is Of.ALL
        else {"consume": "consume:ord*/billing"}.get(verb, f"{verb}:orders")
        for verb in operation.need.verbs
    ]


def elsewhere_of(operation: Operation) -> list[str]:
    """Scopes of a consumer that do not reach the call: of a topic's state any of its groups does."""
    return (
        ["consume:other/*"] if operation.need == KNOW and "{group}" not in operation.path else ["consume:orders/other"]
    )


async def test_none_is_done_without_its_scope(client: httpx.AsyncClient, server: SpiedServer, ring: Ring) -> None:
    """A key that may do all else: every other verb everywhere, and this one elsewhere."""
    await server.group(await server.topic())
    await server.store.write(keys.add, Key("owner", bytes(32), ("admin",), 0))
    await server.node.keyring.refresh()
    assert await server.node.client_owners.may_use("c1", server.node.keyring._holders[bytes(32)])
    for operation in CLOSED:
        others = {"publish:*", "consume:*/*", "operate:*", "read:*"} - {
            "consume:*/*" if verb == "consume" else f"{verb}:*" for verb in operation.need.verbs
        }
        elsewhere = [
            one
            for verb in operation.need.verbs
            for one in (elsewhere_of(operation) if verb == "consume" else [f"{verb}:order"])
        ]
        key = await ring.make(operation.name, *others, *elsewhere)
        server.asked.clear()
        later = operation.need.of is Of.LATER
        body: Unread | bytes | None = b"{}" if operation.requests else None
        if not later:
            body = Unread()
        elif operation.name == "nudge":
            body = b'{"topic": "orders"}'
        elif operation.name == "put_schedule":
            body = b'{"topic": "orders", "every": "1m", "body": 1}'
        elif operation.name == "settle":
            body = b'{"settle": [{"claim": "1-1-1-1-1", "ack": "all"}]}'
        response = await client.request(
            operation.method, path_of(operation), params=asked(operation), headers=key, content=body
        )
        told = f"{operation.name}: {response.text}"
        if operation.name == "settle":
            assert response.json()["settled"][0]["error"]["status"] == 404, told
        elif operation.name == "deregister":
            assert response.json() == {"client": "c1", "registered": False, "claims": 0}
        elif later and not operation.name.startswith(("nudge", "renew", "put_schedule")):
            assert response.status_code == 404, told
        else:
            assert (response.status_code, kind(response)) == (403, "forbidden"), told
        effects = [
            one.verb
            for one in server.asked
            if not one.verb.startswith(("store.topic_of", "store.find_message", "store.find_schedule"))
        ]
        assert [one for one in effects if one != "groups.group_of"] == [], operation.name


@pytest.mark.slow
async def test_each_is_done_with_its_scope(client: httpx.AsyncClient, server: SpiedServer, ring: Ring) -> None:
    numbers = itertools.count()
    for operation in CLOSED:
        for scope in [*wanted(operation), "admin"]:
            await server.group(await server.topic())
            name = f"key-{next(numbers)}"
            key = await ring.make(name, scope)
            response = await client.request(
                operation.method, path_of(operation), params=asked(operation), headers=key, content=b"{}"
            )
            assert response.status_code not in (401, 403), f"{operation.name} with {scope}: {response.text}"
            await ring.revoke(name)  # else the client is its own


async def test_a_server_that_never_had_a_key_asks_for_none(client: httpx.AsyncClient, ring: Ring) -> None:
    assert (await client.get("/v1/topics")).status_code == 200
    assert (await client.get("/v1/topics", headers={"Authorization": "Bearer x"})).status_code == 200
    key = await ring.make("first", "admin")
    assert (await client.get("/v1/topics")).status_code == 401
    assert (await client.get("/v1/topics", headers=key)).status_code == 200
    await ring.revoke("first")
    assert (await client.get("/v1/topics", headers=key)).status_code == 401
    assert (await client.get("/v1/topics")).status_code == 401


async def test_several_keys_at_once(client: httpx.AsyncClient, ring: Ring) -> None:
    old, new = await ring.make("old", "read:*"), await ring.make("new", "read:*")
    for key in (old, new):
        assert (await client.get("/v1/topics", headers=key)).status_code == 200
    await ring.revoke("old")
    assert (await client.get("/v1/topics", headers=old)).status_code == 401
    assert (await client.get("/v1/topics", headers=new)).status_code == 200


async def test_while_the_store_is_away(
    client: httpx.AsyncClient, server: SpiedServer, ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await ring.make("known", "read:*")
    monkeypatch.setattr(server.backend, "read", failing(Unavailable("away")))
    server.node.keyring._read_at -= 60
    assert (await client.get("/openapi.json", headers=key)).status_code == 200
    response = await client.get("/metrics", headers={"Authorization": f"Bearer {make_token()}"})
    assert (response.status_code, kind(response)) == (503, "store-unavailable")
    assert response.headers["retry-after"]
    assert (await client.get("/metrics", headers=key)).status_code == 200
    assert (await client.get("/metrics")).status_code == 401


async def test_probes_tell_the_holder_of_a_key_alone_what_is_wrong(
    client: httpx.AsyncClient, server: SpiedServer, ring: Ring
) -> None:
    assert "checks" in (await client.get("/readyz?verbose")).json()
    key = await ring.make("known", "publish:x")
    assert (await client.get("/readyz?verbose")).json() == {"ready": True}
    assert "checks" in (await client.get("/readyz?verbose", headers=key)).json()


async def test_a_long_poll_ends_with_its_key(client: httpx.AsyncClient, server: SpiedServer, ring: Ring) -> None:
    await server.group(await server.topic())
    key = await ring.make("worker", "consume:orders/billing")
    answers: list[httpx.Response] = []

    async def poll() -> None:
        body = {"client": "c1", "wait": "30s"}
        answers.append(await client.post("/v1/topics/orders/groups/billing/claim", json=body, headers=key))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poll)
            await until(lambda: server.all("groups.claim"))
            await ring.revoke("worker")
    assert [one.status_code for one in answers] == [401]


class Lines(httpx.AsyncByteStream):
    """A message a line; before the second the key is revoked, and `then` says whether there is a second. (httpx closes
    no generator that is left unread.)"""

    def __init__(self, server: SpiedServer, ring: Ring, then: str) -> None:
        self._server, self._ring, self._then = server, ring, then
        self._sent = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while self._sent and not self._server.all("intake.publish_each"):
            await trio.sleep(0.01)
        if self._sent == 1:
            await self._ring.revoke("worker")
            if self._then == "rests":
                await trio.sleep_forever()
        self._sent += 1
        return b'{"body": 1}\n'


@pytest.mark.parametrize("then", ["goes on", "rests"])
async def test_lines_end_with_their_key(client: httpx.AsyncClient, server: SpiedServer, ring: Ring, then: str) -> None:
    headers = await ring.make("worker", "publish:orders") | {"Content-Type": "application/x-ndjson"}
    request = client.build_request("POST", "/v1/topics/orders/messages", content=b"", headers=headers)
    request.stream = Lines(server, ring, then)
    with trio.fail_after(10):
        response = await client.send(request)
    answers = [json.loads(line) for line in response.text.splitlines()]
    assert [answer.get("state") or answer["error"]["status"] for answer in answers] == ["published", 401]


async def test_a_message_out_of_reach_is_not_there(client: httpx.AsyncClient, server: SpiedServer, ring: Ring) -> None:
    topic = await server.topic()
    waiting, sent = [(await server.publish(topic, b"1", deliver_at=at))[0].id for at in (server.ms + 60_000, None)]
    mine = await ring.make("mine", "publish:orders", "read:orders")
    theirs = await ring.make("theirs", "publish:other*", "read:other*")
    for id_ in (waiting, sent):
        missing = await client.get("/v1/messages/99", headers=theirs)
        response = await client.get(f"/v1/messages/{id_}", headers=theirs)
        assert (response.status_code, kind(response)) == (404, "unknown-message")
        assert response.json()["detail"].replace(str(id_), "99") == missing.json()["detail"]
        assert (await client.get(f"/v1/messages/{id_}", headers=mine)).status_code == 200
    for call in (client.delete, client.patch):
        asked: dict[str, Any] = {"json": {"delay": 5}} if call == client.patch else {}
        assert (await call(f"/v1/messages/{waiting}", headers=theirs, **asked)).status_code == 404
    assert (await client.delete(f"/v1/messages/{waiting}", headers=mine)).status_code == 200
    again = await client.delete(f"/v1/messages/{waiting}", headers=theirs)
    assert again.status_code == 404
    assert (await client.get(f"/v1/messages/{waiting}", headers=mine)).json()["state"] == "cancelled"


async def test_who_operates_a_topic_erases_its_messages(
    client: httpx.AsyncClient, server: SpiedServer, ring: Ring
) -> None:
    await server.store.write(lambda tx: tx.execute_many("lease.add", [(b"lake", b"of ours", 0, 0)]))
    (sent,) = await server.publish(await server.topic(), b"1")
    mine = await ring.make("mine", "operate:orders", "read:orders")
    theirs = await ring.make("theirs", "operate:other*", "publish:orders", "read:orders")
    refused = await client.post(f"/v1/messages/{sent.id}/erase", headers=theirs)
    assert (refused.status_code, kind(refused)) == (404, "unknown-message")
    assert "erased_at" not in (await client.get(f"/v1/messages/{sent.id}", headers=mine)).json()
    with structlog.testing.capture_logs() as told:
        assert (await client.post(f"/v1/messages/{sent.id}/erase", headers=mine)).status_code == 200
    (line,) = [line for line in told if line["event"] == "operated"]
    assert (line["operation"], line["key"], line["target"]) == ("erase", "mine", {"id": str(sent.id)})
    # Of whose topic a message was that only the lake may have, nobody knows: it takes all topics.
    assert (await client.post("/v1/messages/99/erase", headers=mine)).status_code == 404
    every = await ring.make("every", "operate:*")
    assert (await client.post("/v1/messages/99/erase", headers=every)).status_code == 202


async def test_a_claim_out_of_reach_is_not_there(client: httpx.AsyncClient, server: SpiedServer, ring: Ring) -> None:
    topic = await server.topic()
    await server.group(topic)
    await server.publish(topic, b"1")
    mine = await ring.make("mine", "consume:orders/billing")
    theirs = await ring.make("theirs", "consume:orders/other", "consume:other/billing")
    body = {"client": "c1"}
    claim = (await client.post("/v1/topics/orders/groups/billing/claim", json=body, headers=mine)).json()["claim"]
    for verb, asked in (("ack", {}), ("fail", {}), ("extend", {"lease": 9})):
        response = await client.post(f"/v1/claims/{claim}/{verb}", json=asked, headers=theirs)
        assert (response.status_code, kind(response)) == (404, "unknown-claim")
    settle = {"settle": [{"claim": claim, "ack": "all"}]}
    (settled,) = (await client.post("/v1/claims/settle", json=settle, headers=theirs)).json()["settled"]
    assert settled["error"]["type"] == "/problems/unknown-claim"
    assert (await client.post(f"/v1/claims/{claim}/ack", headers=mine)).json() == {"acked": 1}


async def test_a_client_belongs_to_a_key(client: httpx.AsyncClient, server: SpiedServer, ring: Ring) -> None:
    await server.group(await server.topic())
    one, two = await ring.make("one", "consume:*/*"), await ring.make("two", "consume:*/*")
    claim = "/v1/topics/orders/groups/billing/claim"
    assert (await client.post(claim, json={"client": "c"}, headers=one)).status_code == 200
    assert (await client.post("/v1/clients/c/renew", headers=one)).status_code == 200
    for response in (
        await client.post(claim, json={"client": "c"}, headers=two),
        await client.post("/v1/clients/c/renew", headers=two),
    ):
        assert (response.status_code, kind(response)) == (403, "forbidden")
    assert (await client.delete("/v1/clients/c", headers=two)).json()["registered"] is False
    assert (await client.delete("/v1/clients/c", headers=one)).json()["registered"] is True
    assert (await client.post(claim, json={"client": "c"}, headers=two)).status_code == 200


OWN = ("push-host-0123abcd-0", "push-a.b-c-deadbeef-17", "push--00000000-9", "push-h\u00f6st-0123abcd-0")


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("scope", ["", "admin", "consume:orders/billing"])
async def test_the_names_of_a_servers_own_clients_belong_to_nobody(
    client: httpx.AsyncClient, server: SpiedServer, ring: Ring, name: str, scope: str
) -> None:
    """Whether there is one or not, with whatever key, and without one where none is asked for."""
    key = await ring.make("somebody", scope) if scope else {}
    topic = await server.topic()
    await server.publish(topic, b"1")
    group = await server.group(topic)

    async def tried() -> None:
        for response in (
            await client.post("/v1/topics/orders/groups/billing/claim", json={"client": name}, headers=key),
            await client.post(f"/v1/clients/{name}/renew", headers=key),
        ):
            assert (response.status_code, kind(response)) == (403, "forbidden")
        gone = await client.delete(f"/v1/clients/{name}", headers=key)
        assert gone.json() == {"client": name, "registered": False, "claims": 0}

    await tried()
    claim = await server.claim(group, name)
    await server.node.liveness.renew(name)
    await tried()
    assert not (await server.settle(claim, "ack")).lost, "it goes on, and nothing of it has ended"


@in_one("name", ["push-worker-1", "push-HOST-0123ABCD-0", "push-host-0123abcd", "xpush-h-0123abcd-0"])
async def test_others_are_free(client: httpx.AsyncClient, name: str) -> None:
    assert (await client.post(f"/v1/clients/{name}/renew")).status_code == 200


async def test_by_a_free_name_nobody_ends_what_he_does_not_reach(
    client: httpx.AsyncClient, server: SpiedServer, ring: Ring
) -> None:
    """As those of clients that were there before there were keys."""
    topic = await server.topic()
    await server.publish(topic, b"1")
    claim = await server.claim(await server.group(topic), "worker-7", lease=3_600_000)
    news = await server.topic("news", kind="broadcast")
    await server.publish(news, b"1")
    assert (
        await client.post("/v1/topics/news/groups/walls/claim", json={"client": "hall", "from": "earliest"})
    ).status_code == 200
    await server.group(await server.topic("other"), "g")
    narrow = await ring.make("narrow", "consume:other/*", "consume:orders/mail", "consume:news/g")
    for name in ("worker-7", "hall"):
        claimed = await client.post("/v1/topics/other/groups/g/claim", json={"client": name}, headers=narrow)
        assert claimed.status_code == 403
        assert (await client.post(f"/v1/clients/{name}/renew", headers=narrow)).status_code == 403
        assert (await client.delete(f"/v1/clients/{name}", headers=narrow)).json()["claims"] == 0
    assert not (await server.settle(claim, "ack")).lost
    broad = await ring.make("broad", "consume:*/*")
    await ring.revoke("narrow")
    assert (await client.delete("/v1/clients/hall", headers=broad)).json()["claims"] == 0


async def test_who_works_on_a_long_claim_keeps_his_name(
    client: httpx.AsyncClient, server: SpiedServer, ring: Ring
) -> None:
    topic = await server.topic()
    await server.publish(topic, b"1")
    await server.group(topic)
    one, two = await ring.make("one", "consume:*/*"), await ring.make("two", "consume:*/*")
    wish = {"client": "c", "lease": "6h"}
    claimed = (await client.post("/v1/topics/orders/groups/billing/claim", json=wish, headers=one)).json()
    server.ms += 2 * 3_600_000
    assert await server.node.client_owners.forget_unused() == 0
    assert (await client.delete("/v1/clients/c", headers=two)).json()["claims"] == 0
    assert (await client.post("/v1/clients/c/renew", headers=two)).status_code == 403
    assert (await client.post(f"/v1/claims/{claimed['claim']}/ack", headers=one)).json() == {"acked": 1}
    server.ms += 2 * 3_600_000
    assert (await client.post("/v1/clients/c/renew", headers=two)).status_code == 200


THERE = {"topic": "orders", "group": "billing", "client": "c1", "name": "daily", "key": "k1"}
"""What is there. What is not has names as long."""
MISSING = {"topic": "ordure", "group": "banking", "client": "c2", "name": "delay", "key": "k2"}
NAMING = [one for one in CLOSED if "{" in one.path]
SCHEDULE = {"every": "1h", "body": 1}


ALONE = ("renew", "put_schedule")
"""By these a key takes a name that is free: no other is tried after it."""


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([one for one in NAMING if one.name not in ALONE], id="most"),
        *(pytest.param([one for one in NAMING if one.name == name], id=name) for name in ALONE),
    ],
)
async def test_what_is_out_of_reach_is_as_what_is_not_there(
    client: httpx.AsyncClient, server: SpiedServer, ring: Ring, operations: list[Operation]
) -> None:
    """To a key that may do everything elsewhere. But who makes something by a name that is taken finds that out."""
    topic = await server.topic()
    (sent,) = await server.publish(topic, b"1")
    claim = await server.claim(await server.group(topic), "c1")
    await client.put("/v1/schedules/daily", json={**SCHEDULE, "topic": "orders"})
    await client.put("/v1/topics/orders/timers/k1", json={"body": 1, "delay": "1h"})
    await client.post("/v1/clients/c1/renew")
    await server.topic("other")
    elsewhere = await ring.make(
        "elsewhere", *(f"{verb}:other" for verb in ("publish", "operate", "read")), "consume:other/*"
    )
    there = THERE | {"id": str(sent.id), "claim": name_of(claim)}
    none = MISSING | {"id": str(sent.id + 16), "claim": name_of(claim)[:-2] + "zz"}
    conditions: list[dict[str, str]] = [{"If-Match": '"7"'}, {"If-None-Match": "*"}, {}]
    for operation, headers in itertools.product(operations, conditions):
        if headers and operation.method not in ("PUT", "PATCH", "DELETE"):
            continue
        what_was_asked = f"{operation.method} {operation.path} {headers}"
        body = {"put_schedule": json.dumps({**SCHEDULE, "topic": "other"}).encode()}.get(operation.name, b"{}")
        told: list[tuple[int, str, set[str]]] = []
        for names in (none, there):
            response = await client.request(
                operation.method,
                path_of(operation, names | {"queue": "0"}),
                params=asked(operation) | ({"topic": names["topic"]} if "topic" in asked(operation) else {}),
                headers=elsewhere | headers,
                content=body if operation.requests else None,
            )
            text = response.text
            for what, name in sorted(names.items(), key=lambda one: -len(one[1])):  # a claim's may hold others
                text = text.replace(name, what)
            told.append((response.status_code, text, set(response.headers) - {"date"}))
        if operation.name == "renew" or (operation.name == "put_schedule" and "If-Match" not in headers):
            assert told[0][0] in (200, 201), what_was_asked
            assert told[1][0] == 403, what_was_asked
            assert "orders" not in response.text
            if operation.name == "put_schedule":
                assert (await client.delete("/v1/schedules/delay", headers=elsewhere)).status_code == 200
        else:
            assert told[0] == told[1], what_was_asked
            allowed = (200,) if operation.name == "deregister" else (400, 403, 404, 412)
            assert told[0][0] in allowed, what_was_asked


async def test_operators_are_told_of_in_the_log(client: httpx.AsyncClient, server: SpiedServer, ring: Ring) -> None:
    await server.group(await server.topic())
    operator = await ring.make("ops", "operate:orders")
    with structlog.testing.capture_logs() as logs:
        await client.post("/v1/topics/orders/groups/billing/seek", json={"to": "latest"}, headers=operator)
        await client.delete("/v1/topics/other?force=true", headers=operator)
        await client.delete("/v1/topics/orders", headers=operator)
        await client.get("/v1/topics", headers=operator)
    told = [entry for entry in logs if entry["event"] == "operated"]
    assert [(one["operation"], one["key"], one["target"], one["status"], one["outcome"]) for one in told] == [
        ("seek", "ops", {"topic": "orders", "group": "billing"}, 200, "done"),
        ("remove_topic", "ops", {"topic": "other", "force": "true"}, 403, "forbidden"),
        ("remove_topic", "ops", {"topic": "orders"}, 200, "done"),
    ]
    assert operator["Authorization"].removeprefix("Bearer ") not in str(logs)


async def test_who_is_refused_is_told_of_in_the_log_so_often_and_no_more(
    client: httpx.AsyncClient, server: SpiedServer, ring: Ring, mock_clock: trio.testing.MockClock
) -> None:
    await server.group(await server.topic())
    reader, other = await ring.make("reader", "read:*"), await ring.make("other", "read:*")
    wrong = make_token()

    async def refused(headers: dict[str, str], times: int = 1) -> list[tuple[Any, ...]]:
        """What the log has of so many calls."""
        with structlog.testing.capture_logs() as logs:
            for _ in range(times):
                response = await client.delete(f"/v1/topics/orders?force=true&x={'y' * 999}", headers=headers)
                assert response.status_code == 401
        assert wrong not in str(logs)
        told = [one for one in logs if one["event"] == "operated"]
        assert all(one["target"] == {"topic": "orders", "force": "true"} for one in told)
        return [(one["key"], one["status"], one["outcome"], one.get("untold", 0)) for one in told]

    stranger = {"Authorization": f"Bearer {wrong}"}
    assert await refused(stranger, 50) == [(None, 401, "unauthorized", 0)] * 20
    assert await refused({}) == []
    for key, name in ((reader, "reader"), (other, "other")):
        with structlog.testing.capture_logs() as logs:
            for _ in range(25):
                assert (await client.delete("/v1/topics/orders", headers=key)).status_code == 403
        assert [one["key"] for one in logs if one["event"] == "operated"] == [name] * 20
    mock_clock.jump(61)
    await server.node.keyring.refresh()
    assert await refused(stranger, 3) == [(None, 401, "unauthorized", 31), *[(None, 401, "unauthorized", 0)] * 2]
    page = {"Origin": "http://evil.example"} | reader
    with structlog.testing.capture_logs() as logs:
        await client.delete("/v1/topics/orders", headers=page)
    assert [(one["key"], one["outcome"]) for one in logs if one["event"] == "operated"] == [(None, "cross-origin")]


async def test_the_store_may_be_lost_while_keys_are_read(
    server: SpiedServer, ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ring.make("known", "read:*")
    monkeypatch.setattr(server.store.backend, "read", failing(Unavailable("away")))
    with pytest.raises(Unavailable):
        await server.node.keyring.refresh()
    assert server.node.keyring.names == {"known"}


async def test_what_a_guard_s_database_says_is_for_who_may_read_all(
    client: httpx.AsyncClient, ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = (await client.post("/v1/topics/orders/messages", json={"body": 1, "key": "k", "delay": "1h"})).json()["id"]
    monkeypatch.setattr(Guards, "why_held", lambda *_: "mysql://me@db/shop: no answer")
    for scope, told in [("read:*", "mysql://me@db/shop: no answer"), ("read:orders", "its guard has not answered")]:
        headers = await ring.make(scope.replace(":", "-").replace("*", "all"), scope)
        assert (await client.get(f"/v1/messages/{id_}", headers=headers)).json()["held"] == told
        for query in ("state=scheduled", "key=k"):
            page = await client.get(f"/v1/messages?topic=orders&{query}", headers=headers)
            assert [one["held"] for one in page.json()["messages"]] == [told]
