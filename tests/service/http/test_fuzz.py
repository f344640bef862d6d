"""No input gives a 500, every answer is documented, and nothing reaches the node that it was not promised."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from support.documented import documented
from support.effort import examples, full
from support.nodes import name_of
from support.shared import Shared
from support.spied import NOW, Asked, SpiedServer
from tarry.service.errors import UnknownTopic
from tarry.service.http import requests
from tarry.service.http.reading import Body
from tarry.service.http.routes import OPERATIONS, Operation
from tarry.service.settings import Settings
from tarry.store.catalogue import TopicDraft
from tarry.store.ids import MAX_MS
from tarry.store.records import Draft
from tarry.wheel.ladder import Ladder

SETTINGS = Settings(max_body=64, max_batch=3, max_wait=0)

BODIES = [type_ for type_ in vars(requests).values() if isinstance(type_, type) and issubclass(type_, Body)]
FIELDS = sorted({field.encode_name for type_ in BODIES for field in msgspec.structs.fields(type_)})

texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["1h", "PT1S", "P1M", "7", "0", "2026-11-21T10:00:00Z", "9999-12-31T23:59:59-23:59", "latest", "AA=="]
    ),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 2),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.sampled_from(FIELDS), texts), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)

labels = st.text(min_size=1, max_size=4)
durations = st.one_of(st.integers(0, 10**6), st.sampled_from(["10s", "PT10M", "3650d"]))
ids = st.integers(0, 99).map(str)
ladders = st.lists(durations, max_size=3)
message = st.fixed_dictionaries(
    {"body": scalars},
    optional={"key": labels, "delay": durations, "headers": st.dictionaries(labels, texts, max_size=2)},
)
SOUND: dict[str, st.SearchStrategy[Any]] = {
    "body": values,
    "body_base64": st.just("AP8="),
    "content_type": st.just("image/png"),
    "delay": durations,
    "deliver_at": st.just("2026-12-01T00:00:00+01:00"),
    "deliver_between": st.just(["2026-12-01T00:00:00+01:00", "2026-12-02T00:00:00+01:00"]),
    "expires_at": st.just("2200-01-01T00:00:00Z"),
    "headers": st.dictionaries(labels, texts, max_size=2),
    "queue": st.integers(0, 2),
    "messages": st.lists(message, min_size=1, max_size=4),
    "client": labels,
    "max": st.integers(1, 1000),
    "tags": st.lists(labels, max_size=2),
    "wait": st.just(0),
    "lease": durations,
    "from": st.sampled_from(["earliest", "latest", "2026-11-21T10:00:00Z", 5]),
    "to": st.sampled_from(["earliest", "latest", {"offset": 3}, {"time": "2026-11-21T10:00:00Z"}, 7]),
    "offset": st.integers(0, 9),
    "time": st.just("2026-11-21T10:00:00Z"),
    "jitter": st.sampled_from([0, 0.5, 1, 2]),
    "rate": st.integers(900, 1000),  # a second: the node does keep to it
    "dry_run": st.booleans(),
    "ids": st.lists(st.one_of(st.just("{held}"), ids), max_size=3),
    "reason": st.text(max_size=5),
    "retry_after": durations,
    "count": st.booleans(),
    "ladder": ladders,
    "retention": durations,
    "queues": st.integers(1, 4),
    "kind": st.just("cluster"),
    "ordered": st.booleans(),
    "on_exhausted": st.sampled_from(["dead", "block"]),
}
PARTS = {"topic": "orders", "group": "billing", "queue": "0", "kind": "busy"}
PARTS |= {"client": "10.0.0.1-42", "key": "order-7", "name": "daily"}
QUERY: dict[str, st.SearchStrategy[str]] = {
    "topic": st.just("orders"),
    "key": labels,
    **dict.fromkeys(("max", "count"), st.integers(1, 1000).map(str)),
    "cursor": ids,
    "offset": ids,
    "wait": st.just("0"),
    "sort": st.sampled_from(["name", "rate"]),
    "verbose": st.just(""),
    **dict.fromkeys(("force", "dry_run"), st.sampled_from(["true", "false", "yes"])),
    "reason": labels,
    "state": st.sampled_from(["scheduled", "published", "cancelled", "dead"]),
    "buckets": st.integers(1, 3).map(str),
    "width": st.sampled_from(["1h", "x"]),
    "from": st.just("2026-11-21T10:00:00Z"),
    "to": st.sampled_from(["2026-11-21T10:00:00Z", "later"]),
}


@st.composite
def nearly_sound(draw: st.DrawFn, operation: Operation) -> bytes:
    """A body of this operation's, with at most a field or two that are not as they should be."""
    struct = draw(st.sampled_from(operation.requests))
    sent: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        name = field.encode_name
        if field.required or (name == "body" and draw(st.booleans())) or draw(st.integers(0, 3)) == 0:
            sent[name] = draw(SOUND.get(name, labels))
    if draw(st.integers(0, 3)) == 0:
        sent |= draw(objects)
    return msgspec.json.encode(sent)


@st.composite
def damaged(draw: st.DrawFn, sound: bytes) -> bytes:
    """A few bytes put in, taken out or changed."""
    text = bytearray(sound)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        text[start : start + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    return bytes(text)


@frozen
class Ask:
    """A request. It may name `{id}`, a message that waits, `{claim}`, and a message `{held}` there or dead."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    keys: list[bytes]


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    """Requests that get somewhere, most of them."""
    operation = draw(st.sampled_from(OPERATIONS))
    wild = draw(st.integers(0, 5)) == 0
    path = operation.path
    for name in re.findall("{(.+?)}", path):
        if not wild and name not in PARTS:
            continue  # there is none before the node is asked
        part = draw(st.text(min_size=1, max_size=5)) if wild else PARTS[name]
        path = path.replace(f"{{{name}}}", quote(part.replace("/", "-").encode("utf-8", "replace"), safe=""))
    query = {p.name: draw(QUERY[p.name]) for p in operation.query if p.required or draw(st.booleans())}
    if wild:
        query |= draw(st.dictionaries(st.one_of(st.sampled_from(sorted(QUERY)), texts), texts, max_size=2))
    body = draw(nearly_sound(operation)) if operation.requests else b""
    if draw(st.integers(0, 5)) == 0:
        body = draw(st.one_of(damaged(body), values.map(msgspec.json.encode), st.binary(max_size=20)))
    method = draw(st.sampled_from(["POST", "PUT"])) if draw(st.integers(0, 19)) == 0 else operation.method
    return Ask(method, path, query, body, draw(st.lists(st.binary(max_size=4), max_size=2)) if wild else [])


publishes = nearly_sound(next(operation for operation in OPERATIONS if operation.path.endswith("{topic}/messages")))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with Shared(tmp_path_factory.mktemp("fuzz") / "tarry.db", SETTINGS) as shared:
        yield shared


async def prepared(server: SpiedServer, path: str) -> dict[str, str]:
    """Sees to it that there is what a request can be about, and what it names: others before it may have removed it."""
    try:
        topic = await server.node.directory.topic("orders", create=False)
    except UnknownTopic:
        topic = await server.topic(queues=2)
    if topic.limited:
        kept = (topic.kind, len(topic.queues), topic.ordered, topic.retention, topic.ladder, topic.sequencer)
        topic, _ = await server.node.catalogue.put_topic(TopicDraft(topic.name, *kept))
    group = await server.group(topic)
    if group.concurrency is not None:
        group = await server.node.catalogue.limit_group(group, None)
    if group.paused:
        group = await server.node.catalogue.pause_group(group, paused=False)
    if path.endswith(("/claim", "/messages")):
        await server.publish(topic, b"null")
        await server.publish(topic, b"\xff", content_type="x/y", key="k")
    if "{id}" in path:
        (receipt,) = await server.publish(topic, b"1", deliver_at=NOW + 60_000)
        return {"{id}": str(receipt.id)}
    if "/dead" in path or "{claim}" in path:
        group, _ = await server.node.catalogue.put_group(topic, "billing", Ladder(()))
        await server.publish(topic, b"1")
        claim = await server.claim(group, size=1)
        if "/dead" in path:
            await server.settle(claim, "fail", reason="a")
        return {"{claim}": name_of(claim), "{held}": str(claim.messages[0].id)}
    return {}


def check_promises(asked: list[Asked]) -> None:
    """What the node's parts may rely on, whatever was sent."""
    for verb, args, kwargs in asked:
        if verb == "intake.publish":
            (publication,) = args
            assert 1 <= len(publication.drafts) <= SETTINGS.max_batch
            assert len(publication.fingerprint) == (0 if publication.idempotency_key is None else 32)
            assert publication.idempotency_key is None or 1 <= len(publication.idempotency_key.encode()) <= 255
            for draft in publication.drafts:
                check_draft(draft)
        elif verb == "groups.claim":
            _, wish, wait = args
            assert 1 <= len(wish.client.encode()) <= 255
            assert 1 <= wish.size <= 1000
            assert wait == 0
            assert 1 <= wish.lease <= SETTINGS.max_lease
        elif verb == "groups.settle":
            ids, rest, lease = kwargs.get("ids"), kwargs.get("retry_after"), kwargs.get("lease", 0)
            assert ids is None or all(0 <= id_ < 2**63 for id_ in ids)
            assert rest is None or 0 <= rest <= SETTINGS.max_delay
            assert (1 <= lease <= SETTINGS.max_lease) if args[1] == "extend" else lease == 0
        elif verb in ("intake.cancel", "intake.reschedule"):
            assert 0 <= args[0] < 2**63
            assert verb == "intake.cancel" or 0 <= args[1] < MAX_MS
        elif verb == "store.find_message":
            assert 0 <= args[1] < 2**63


def check_draft(draft: Draft) -> None:
    assert len(draft.body) <= SETTINGS.max_body
    if draft.content_type is None:
        msgspec.json.decode(draft.body)
    assert draft.deliver_at is None or 0 <= draft.deliver_at <= NOW + SETTINGS.max_delay
    for label in (draft.key, draft.ordering_key, draft.tag):
        assert label is None or 1 <= len(label.encode()) <= 255
    assert draft.headers is None or isinstance(msgspec.json.decode(draft.headers), dict)


@full
@settings(max_examples=examples(200, 1000), deadline=None)
@given(asked=asks())
def test_no_input_gives_a_500(shared: Shared, asked: Ask) -> None:
    async def ask() -> None:
        path, body = asked.path, asked.body
        for name, value in (await prepared(shared.server, path)).items():
            path, body = path.replace(name, value), body.replace(name.encode(), value.encode())
        headers: Any = [(b"Idempotency-Key", key) for key in asked.keys]
        response = await shared.client.request(asked.method, path, params=asked.query, content=body, headers=headers)
        assert response.status_code < 500, response.text
        if response.request.url.path != "/metrics":
            response.json()
        if response.status_code >= 400:
            assert response.headers["content-type"] == "application/problem+json"
        await documented(response)

    shared.run(ask)
    check_promises(shared.server.asked)


def with_body(body: object) -> bytes:
    return msgspec.json.encode({"body": body})


@full
@settings(max_examples=examples(60, 300), deadline=None)
@given(body=st.one_of(publishes, values.map(with_body)))
def test_what_is_accepted_comes_back_as_it_was(shared: Shared, body: bytes) -> None:
    client = shared.client

    async def ask() -> None:
        topic = "/v1/topics/returned"
        await client.put(topic, json={"queues": 3})
        published = await client.post(f"{topic}/messages", content=body)
        if published.status_code != 201:
            return
        sent, receipts = msgspec.json.decode(body), published.json()
        got: dict[str, dict[str, Any]] = {}
        while claimed := (await client.post(f"{topic}/groups/g/claim", json={"client": "c1"})).json()["messages"]:
            got |= {message["id"]: message for message in claimed}
        for message, receipt in zip(sent.get("messages", [sent]), receipts.get("messages", [receipts]), strict=True):
            id_ = receipt["id"]
            # What an example before this one had accepted with the same idempotency key has been claimed.
            assert (id_ in got) == (receipt["state"] == "published" and "replayed" not in receipt)
            found: dict[str, Any] = (await client.get(f"/v1/messages/{id_}")).json()
            for answer in (found, got.get(id_, found)):
                for field in ("body", "body_base64", "headers"):
                    if message.get(field) is not None or (field == "body" and "body" in message):
                        assert answer[field] == message[field]

    shared.run(ask)
