"""Topics, groups and dead letters."""

from typing import Any

import httpx
import pytest
from attrs import evolve

from support.recording_broker import NOW, RecordingBroker, delivered, history
from tarry.service.topics.ranking import Place
from tarry.service.topics.rates import Activity, Rate
from tarry.store.catalogue import TopicDraft
from tarry.store.records import DeadLetter
from tarry.wheel.ladder import Ladder

ORDERS = "/v1/topics/orders"
BILLING = f"{ORDERS}/groups/billing"
DAY = 86_400_000


def drafts(broker: RecordingBroker) -> list[TopicDraft]:
    return [call[1] for call in broker.calls if call[0] == "put_topic"]


async def test_a_topic_is_made_and_then_changed(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    made = await client.put(ORDERS, json={"queues": 4, "retention": "7d", "ladder": ["10s", 60_000]})
    assert made.status_code == 201
    assert made.json() == {
        "topic": "orders",
        "kind": "cluster",
        "queues": 4,
        "ordered": False,
        "retention": 7 * DAY,
        "ladder": [10_000, 60_000],
        "sequencer": "store",
        "jitter": 0.0,
        "created_at": "2026-11-21T10:00:00.000Z",
    }
    changed = await client.put(ORDERS, json={"retention": None})
    assert changed.status_code == 200
    ladder = Ladder((10_000, 60_000))
    assert drafts(broker) == [
        TopicDraft("orders", queues=4, retention=7 * DAY, ladder=ladder),
        TopicDraft("orders", queues=4, retention=None, ladder=ladder),
    ]


async def test_a_topic_without_a_word_has_the_defaults(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    assert (await client.put(ORDERS)).status_code == 201
    assert drafts(broker) == [TopicDraft("orders")]


async def test_what_the_contract_names_is_passed_on(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    await client.put(ORDERS, json={"kind": "broadcast", "ordered": True, "retention": 0, "ladder": []})
    assert drafts(broker) == [TopicDraft("orders", "broadcast", 1, True, 0, Ladder(()))]


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"queues": 0}, "/queues"),
        ({"queues": 1025}, "/queues"),
        ({"jitter": 1.5}, "/jitter"),
        ({"jitter": "a lot"}, "/jitter"),
        ({"kind": "queue"}, "/kind"),
        ({"ordered": 1}, "/ordered"),
        ({"retention": "P1Y"}, "/retention"),
        ({"ladder": ["10s", "x"]}, "/ladder/1"),
        ({"ladder": [True]}, "/ladder/0"),
        ({"ladder": ["1s"] * 65}, "/ladder"),
        ({"ladder": ["3651d"]}, "/ladder/0"),
        ({"queue": 5}, "/queue"),
    ],
)
async def test_what_is_wrong_with_a_topic(
    client: httpx.AsyncClient, broker: RecordingBroker, wrong: dict[str, Any], pointer: str
) -> None:
    response = await client.put(ORDERS, json=wrong)
    assert response.status_code == 400, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
    assert drafts(broker) == []


async def test_topics_are_listed_with_their_counts(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.add_topic("orders")
    (topic,) = (await client.get("/v1/topics?sort=name")).json()["topics"]
    counts = {name: topic[name] for name in ("topic", "accepted", "streamed", "cancelled", "pending")}
    assert counts == {"topic": "orders", "accepted": 10, "streamed": 6, "cancelled": 1, "pending": 3}
    assert (await client.get("/v1/topics?sort=age")).json()["type"] == "/problems/bad-request"


async def test_topics_come_in_pages(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    for name in "abc":
        broker.add_topic(name)
    broker.activities = {2: Activity(Rate(1.234, 8), 7)}
    page = (await client.get("/v1/topics?sort=rate&max=2")).json()
    assert [topic["topic"] for topic in page["topics"]] == ["a", "b"]
    assert [page["topics"][1][name] for name in ("published_rate", "delivered_rate", "backlog")] == [1.23, 8.0, 7]
    assert page["cursor"] == "7:b"
    assert broker.calls[-1] == ("ranked", "rate", Place(), 2)
    page = (await client.get(f"/v1/topics?cursor={page['cursor']}")).json()
    assert broker.calls[-1] == ("ranked", "name", Place("b", 7), 100)
    assert page["cursor"] is None
    for wrong in ("max=0", "max=1001", "cursor=b", "cursor=x:b", "cursor=7:", "cursor=-1:b", "curser=7:b"):
        assert (await client.get(f"/v1/topics?{wrong}")).status_code == 400


async def test_a_topic_is_told_with_its_groups(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.add_topic("events")
    await client.put(f"{ORDERS}/groups/billing")
    topic = (await client.get(ORDERS)).json()
    assert (topic["topic"], topic["pending"], topic["queues"]) == ("orders", 3, 1)
    (group,) = topic["groups"]
    counts = {name: group[name] for name in ("group", "backlog", "claimed", "retrying", "dead")}
    assert counts == {"group": "billing", "backlog": 6, "claimed": 1, "retrying": 2, "dead": 1}


async def test_a_group_is_made_and_then_changed(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    made = await client.put(BILLING, json={"ladder": ["1s"]})
    summary = {"group": "billing", "topic": "orders", "ladder": [1000], "jitter": 0.0, "on_exhausted": "dead"}
    assert (made.status_code, made.json()) == (201, summary | {"concurrency": None})
    changed = await client.put(BILLING, json={"ladder": None})
    assert (changed.status_code, len(changed.json()["ladder"])) == (200, 16)
    same = await client.put(BILLING, json={})
    assert same.status_code == 200
    assert [call for call in broker.calls if call[0] == "put_group"] == [
        ("put_group", "orders", "billing", Ladder((1000,))),
        ("put_group", "orders", "billing", None),
    ]
    assert (await client.get(f"{ORDERS}/groups")).json() == {"groups": [changed.json()]}


async def test_a_group_of_an_ordered_topic_may_block(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.add_topic("orders", ordered=True)
    made = await client.put(BILLING, json={"on_exhausted": "block"})
    assert (made.status_code, made.json()["on_exhausted"]) == (201, "block")
    again = await client.put(BILLING, json={"ladder": ["1s"]})
    assert (again.status_code, again.json()["on_exhausted"]) == (200, "block"), "what is left out stays"
    await client.put(BILLING, json={"on_exhausted": "dead"})
    assert [call[2:] for call in broker.calls if call[0] == "put_group"] == [
        ("billing", None, True),
        ("billing", Ladder((1000,)), True),
        ("billing", Ladder((1000,))),
    ]


async def test_a_group_of_another_topic_has_nothing_to_block(client: httpx.AsyncClient) -> None:
    response = await client.put(BILLING, json={"on_exhausted": "block"})
    assert response.status_code == 400
    assert [error["pointer"] for error in response.json()["errors"]] == ["/on_exhausted"]


async def test_a_groups_concurrency(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    made = await client.put(BILLING, json={"concurrency": 5})
    assert (made.status_code, made.json()["concurrency"]) == (201, 5)
    assert (await client.put(BILLING, json={"ladder": ["1s"]})).json()["ladder"] == [1000]
    assert (await client.put(BILLING, json={"concurrency": None})).json()["concurrency"] is None
    assert [call[2] for call in broker.calls if call[0] == "limit_group"] == [5, None]


@pytest.mark.parametrize(
    ("path", "wrong", "rule"),
    [
        (ORDERS, {"kind": "queue"}, "'queue' is not one of broadcast, cluster"),
        (ORDERS, {"sequencer": "kafka"}, "'kafka' is not one of redis, store"),
        (ORDERS, {"queues": 0}, "it is a whole number from 1 to 1024"),
        (BILLING, {"on_exhausted": "drop"}, "'drop' is not one of block, dead"),
        (BILLING, {"concurrency": 0}, "it is a whole number from 1 to 1000000"),
    ],
)
async def test_the_whole_rule_is_told(client: httpx.AsyncClient, path: str, wrong: dict[str, Any], rule: str) -> None:
    response = await client.put(path, json=wrong)
    assert [error["detail"] for error in response.json()["errors"]] == [rule]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "5", True, 1_000_001])
async def test_a_concurrency_that_is_none(client: httpx.AsyncClient, broker: RecordingBroker, wrong: Any) -> None:
    response = await client.put(BILLING, json={"concurrency": wrong})
    assert response.status_code == 400, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == ["/concurrency"]


async def test_a_groups_state(client: httpx.AsyncClient) -> None:
    await client.put(BILLING)
    state = (await client.get(BILLING)).json()
    del state["ladder"], state["jitter"]
    assert state == {
        "group": "billing",
        "topic": "orders",
        "concurrency": None,
        "backlog": 6,
        "queues": [{"queue": 0, "offset": 4, "end": 9, "lag": 5}],
        "retry_queues": [{"queue": 0, "offset": 1, "end": 2, "lag": 1}],
        "clients": ["c1"],
        "on_exhausted": "dead",
        "parked": 0,
        "claims": 1,
        "claimed": 1,
        "retries": [0, 2],
        "acked": 3,
        "retried": 2,
        "redriven": 0,
        "dead": 1,
        "dead_letters": 0,
        "skipped": 0,
        "expired": 0,
    }


async def test_dead_letters_come_with_their_attempts(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    await client.put(BILLING)
    letter = DeadLetter(delivered(7), NOW, history("no ink", "lease lost"))
    broker.letters = [letter, evolve(letter, message=delivered(9))]
    first = (await client.get(f"{BILLING}/dead?max=1")).json()
    assert first["cursor"] == "7"
    assert first["messages"][0]["body"] == {"order": 7}
    assert first["messages"][0]["dead_at"] == "2026-11-21T10:00:00.000Z"
    assert first["messages"][0]["attempts"] == [
        {"at": "2026-11-21T10:00:00.000Z", "client": "c1", "reason": "no ink"},
        {"at": "2026-11-21T10:00:00.000Z", "client": "c1", "reason": "lease lost"},
    ]
    rest = (await client.get(f"{BILLING}/dead?cursor=7")).json()
    assert ([message["id"] for message in rest["messages"]], rest["cursor"]) == (["9"], None)


@pytest.mark.parametrize("path", [ORDERS, f"{ORDERS}/groups", BILLING, f"{BILLING}/dead"])
async def test_looking_makes_nothing(client: httpx.AsyncClient, broker: RecordingBroker, path: str) -> None:
    assert (await client.get(path)).json()["type"] == "/problems/unknown-topic"
    broker.add_topic("orders")
    response = await client.get(path)
    if path.startswith(BILLING):
        assert response.json()["type"] == "/problems/unknown-group"
    assert (list(broker.known), broker.known_groups) == (["orders"], {})


async def test_a_nudge_is_taken_at_once(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    assert (await client.post("/v1/nudge")).status_code == 202
    broker.add_topic("orders")
    response = await client.post("/v1/nudge", json={"topic": "orders"})
    assert (response.status_code, response.json()) == (202, {"nudged": True})
    assert [call[0] for call in broker.calls].count("nudge") == 2
    unknown = await client.post("/v1/nudge", json={"topic": "nosuch"})
    assert unknown.json()["type"] == "/problems/unknown-topic"
    bad = await client.post("/v1/nudge", json={"topic": "a b"})
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (400, "/topic")
    assert [call[0] for call in broker.calls].count("nudge") == 2
