"""Topics, groups and dead letters."""

from typing import Any

import httpx
import pytest

from support.in_one import in_one
from support.spied import NOW, SpiedServer
from support.wrong_input import faults, in_turn
from tarry.service.engine.topics.group_ranking import GroupPageStart
from tarry.service.engine.topics.ranking import TopicPageStart
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Group, GroupState
from tarry.wheel.ladder import Ladder

ORDERS = "/v1/topics/orders"
BILLING = f"{ORDERS}/groups/billing"
HOUR = 3_600_000
DAY = 24 * HOUR
MINUTE = HOUR // 60
RUNGS = [10_000, 30_000, *(many * MINUTE for many in range(1, 11)), 20 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR]
DEFAULTS = {"retention": 7 * DAY, "ladder": RUNGS, "jitter": 0.0}


def drafts(server: SpiedServer) -> list[TopicDraft]:
    return [draft for draft, *_ in server.all("catalogue.put_topic")]


def put_groups(server: SpiedServer) -> list[tuple[Any, ...]]:
    """What the catalogue was asked to put: topic, group, ladder, and how it is to be."""
    calls = [call for call in server.asked if call.verb == "catalogue.put_group"]
    return [(call.args[0].name, *call.args[1:], call.kwargs) for call in calls]


def anew(*, block: bool = False) -> dict[str, Any]:
    return {"block": block, "latest": False, "since": None}


async def busy_group(server: SpiedServer) -> Group:
    """Of its nine messages two are done, one dead; two rest at the second rung, one came back, one is in hand."""
    topic = await server.topic()
    group, _ = await server.node.catalogue.put_group(topic, "billing", Ladder(()))
    await server.publish(topic, *[b"1"] * 5)
    claim = await server.claim(group, size=3)
    await server.settle(claim, "fail", claim.messages[0].id)
    await server.settle(claim, "ack")
    group, _ = await server.node.catalogue.put_group(topic, "billing", Ladder((0, HOUR)))
    await server.settle(await server.claim(group, size=2), "fail")
    for _ in range(2):
        await server.settle(await server.claim(group, size=1, wait=10_000), "fail")
    await server.publish(topic, *[b"1"] * 4)
    back, _ = await server.claim(group, size=1), await server.claim(group, size=1)
    await server.settle(back, "fail")

    def returned(state: GroupState) -> int:
        return sum(queue.end for queue in state.queues if queue.retry)

    while returned(await server.node.groups.state(group)) < 3:
        await server.node.dispatcher.turned()
    return group


async def test_a_topic_is_made_and_then_changed(client: httpx.AsyncClient, server: SpiedServer) -> None:
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
        "max_pending": None,
        "max_rate": None,
        "release_rate": None,
        "jitter": 0.0,
        "created_at": "2026-11-21T10:00:00.000Z",
        "defaults": DEFAULTS,
    }
    changed = await client.put(ORDERS, json={"retention": None})
    assert changed.status_code == 200
    ladder = Ladder((10_000, 60_000))
    assert drafts(server) == [
        TopicDraft("orders", queues=4, retention=7 * DAY, ladder=ladder),
        TopicDraft("orders", queues=4, retention=None, ladder=ladder),
    ]


async def test_what_is_in_memory_twice_is_held_back_once(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.put(ORDERS, json={"release_rate": 1})
    pending, topic = server.node.pending, await server.topic(release_rate=1)
    for receipt in await server.publish(topic, *[b"1"] * 3, deliver_at=NOW + 1000):
        pending.add(NOW + 1000, receipt.id)  # as the loader does with what is published while it reads
    server.ms += 1000
    while (told := (await client.get(ORDERS)).json())["streamed"] < 1:
        await server.node.dispatcher.turned()
    assert pending.held_back_of(topic.id) > 2
    assert (told["held_back"], told["pending"]) == (2, 2)


async def test_the_limits_of_a_topic_are_set_and_taken_back(client: httpx.AsyncClient, server: SpiedServer) -> None:
    made = await client.put(ORDERS, json={"max_pending": 0, "max_rate": 5})
    assert (made.status_code, made.json()["max_pending"], made.json()["max_rate"]) == (201, 0, 5)
    kept = (await client.put(ORDERS, json={"max_pending": 7})).json()
    assert (kept["max_pending"], kept["max_rate"]) == (7, 5), "what is left out stays"
    kept = (await client.put(ORDERS, json={"max_rate": None})).json()
    assert (kept["max_pending"], kept["max_rate"]) == (7, None)
    assert [(one.max_pending, one.max_rate) for one in drafts(server)] == [(0, 5), (7, 5), (7, None)]


async def test_a_release_rate_is_set_and_taken_back(client: httpx.AsyncClient, server: SpiedServer) -> None:
    made = await client.put(ORDERS, json={"release_rate": 5})
    assert (made.status_code, made.json()["release_rate"]) == (201, 5)
    assert server.node.directory.release_rates == {server.node.directory.topic_ids[-1]: 5}
    assert (await client.put(ORDERS, json={"max_rate": 7})).json()["release_rate"] == 5, "what is left out stays"
    assert (await client.put(ORDERS, json={"release_rate": None})).json()["release_rate"] is None
    assert server.node.directory.release_rates == {}
    assert [one.release_rate for one in drafts(server)] == [5, 5, None]


async def test_a_topic_without_a_word_has_the_defaults(client: httpx.AsyncClient, server: SpiedServer) -> None:
    assert (await client.put(ORDERS)).status_code == 201
    assert drafts(server) == [TopicDraft("orders")]


async def test_what_the_contract_names_is_passed_on(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.put(ORDERS, json={"kind": "broadcast", "ordered": True, "retention": 0, "ladder": []})
    assert drafts(server) == [TopicDraft("orders", "broadcast", 1, True, 0, Ladder(()))]


@in_one(
    ("pointer", "wrong"),
    [
        *in_turn("/queues", 0, 1025),
        *in_turn("/jitter", 1.5, "a lot"),
        *in_turn("/kind", "queue"),
        *in_turn("/ordered", 1),
        *in_turn("/retention", "P1Y"),
        *in_turn("/ladder", ["1s"] * 65),
        *in_turn("/ladder/0", [True], ["3651d"]),
        *in_turn("/ladder/1", ["10s", "x"]),
        *in_turn("/queue", 5),
        *in_turn("/max_pending", -1, "1"),
        *in_turn("/max_rate", 0),
        *in_turn("/release_rate", 0, 1_000_001),
        *in_turn("/concurrency", 0, -1, 1.5, "5", True, 1_000_001),
        *in_turn("/on_exhausted", "block"),  # the group's topic is not ordered
    ],
)
async def test_what_is_wrong_with_a_topic_or_a_group(
    client: httpx.AsyncClient, server: SpiedServer, pointer: str, wrong: Any
) -> None:
    path = BILLING if pointer in ("/concurrency", "/on_exhausted") else ORDERS
    response = await client.put(path, json={pointer.split("/")[1]: wrong})
    assert faults(response) == [pointer]
    assert not any((drafts(server), put_groups(server), server.all("catalogue.limit_group")))


async def test_topics_are_listed_with_their_counts(client: httpx.AsyncClient, server: SpiedServer) -> None:
    orders = await server.topic()
    await server.publish(orders, *[b"1"] * 6)
    waiting = await server.publish(orders, *[b"1"] * 4, deliver_at=NOW + DAY)
    await server.node.intake.cancel(waiting[0].id)
    (topic,) = (await client.get("/v1/topics?sort=name")).json()["topics"]
    counts = {name: topic[name] for name in ("topic", "accepted", "streamed", "cancelled", "pending")}
    assert counts == {"topic": "orders", "accepted": 10, "streamed": 6, "cancelled": 1, "pending": 3}
    assert (await client.get("/v1/topics?sort=age")).json()["type"] == "/problems/bad-request"


async def test_topics_come_in_pages(
    client: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = server.node.ranking._rates
    three_seconds_on = rates._began + 3.0
    monkeypatch.setattr(rates, "_seconds", lambda: three_seconds_on)
    for name, messages in (("a", 30), ("b", 10), ("c", 0)):
        topic = await server.topic(name)
        if messages:
            await server.publish(topic, *[b"1"] * messages)
        if name == "b":
            await server.claim(await server.group(topic, "billing"), size=6)
            await server.claim(await server.group(topic, "mail"), size=7)
    page = (await client.get("/v1/topics?sort=rate&max=2")).json()
    assert [topic["topic"] for topic in page["topics"]] == ["a", "b"]
    assert [page["topics"][1][name] for name in ("published_rate", "delivered_rate", "backlog")] == [3.33, 4.33, 7]
    assert page["cursor"] == "7667:b"
    assert server.all("ranking.page")[-1] == ("rate", TopicPageStart(), 2)
    page = (await client.get(f"/v1/topics?cursor={page['cursor']}")).json()
    assert server.all("ranking.page")[-1] == ("name", TopicPageStart("b", 7667), 100)
    assert page["cursor"] is None
    for wrong in ("max=0", "max=1001", "cursor=b", "cursor=x:b", "cursor=7:", "cursor=-1:b", "curser=7:b"):
        assert (await client.get(f"/v1/topics?{wrong}")).status_code == 400


async def test_groups_of_all_topics_come_in_pages(client: httpx.AsyncClient, server: SpiedServer) -> None:
    for name, messages in (("a", 2), ("b", 5), ("c", 0)):
        topic = await server.topic(name)
        await server.group(topic, "mail")
        if messages:
            await server.publish(topic, *[b"1"] * messages)
    await server.node.catalogue.pause_group(await server.group(topic, "billing"), paused=True)
    page = (await client.get("/v1/groups?sort=backlog&max=2")).json()
    assert [(one["topic"], one["group"], one["backlog"]) for one in page["groups"]] == [
        ("b", "mail", 5),
        ("a", "mail", 2),
    ]
    assert page["cursor"] == "2:a:mail"
    page = (await client.get(f"/v1/groups?sort=backlog&cursor={page['cursor']}")).json()
    assert server.all("group_ranking.page")[-1] == ("backlog", GroupPageStart("a", "mail", 2), 100, None)
    assert [(one["group"], one["paused"]) for one in page["groups"]] == [("billing", True), ("mail", False)]
    assert page["cursor"] is None
    (one,) = (await client.get("/v1/groups?topic=b")).json()["groups"]
    assert one == (await client.get("/v1/topics/b")).json()["groups"][0]
    assert (await client.get("/v1/groups?sort=dead_letters&max=1")).json()["cursor"] == "0:a:mail"
    assert (await client.get("/v1/groups?topic=nosuch")).json()["type"] == "/problems/unknown-topic"
    cursors = ("b", "x:b:c", "7:", "7:b", "7:b:", "-1:b:c", "7:b:c:d", "7:..:c")
    for wrong in ("max=0", "max=1001", "sort=rate", "topic=a b", "curser=7:b:c", *(f"cursor={one}" for one in cursors)):
        assert (await client.get(f"/v1/groups?{wrong}")).status_code == 400, wrong


async def test_a_topic_is_told_with_its_groups(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.topic("events")
    group = await busy_group(server)
    await server.publish(group.topic, *[b"1"] * 3, deliver_at=NOW + DAY)
    topic = (await client.get(ORDERS)).json()
    assert (topic["topic"], topic["pending"], topic["queues"]) == ("orders", 3, 1)
    (group,) = topic["groups"]
    counts = {name: group[name] for name in ("group", "backlog", "claimed", "retrying", "dead")}
    assert counts == {"group": "billing", "backlog": 3, "claimed": 1, "retrying": 2, "dead": 1}


async def test_a_group_is_made_and_then_changed(client: httpx.AsyncClient, server: SpiedServer) -> None:
    made = await client.put(BILLING, json={"ladder": ["1s"]})
    summary = {"group": "billing", "topic": "orders", "ladder": [1000], "jitter": 0.0, "on_exhausted": "dead"}
    summary |= {"concurrency": None, "paused": False}
    defaults = {"ladder": RUNGS, "jitter": 0.0, "ladder_of": "server"}
    assert (made.status_code, made.json()) == (201, summary | {"ladder_of": "group", "defaults": defaults})
    changed = await client.put(BILLING, json={"ladder": None})
    assert (changed.status_code, len(changed.json()["ladder"])) == (200, 16)
    same = await client.put(BILLING, json={})
    assert same.status_code == 200
    assert put_groups(server) == [("orders", "billing", Ladder((1000,)), anew()), ("orders", "billing", None, anew())]
    assert (await client.get(f"{ORDERS}/groups")).json() == {"groups": [summary | {"ladder": RUNGS}]}


async def test_what_a_topic_leaves_to_the_server_is_told(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.put(ORDERS)
    told = (await client.get(ORDERS)).json()
    assert (told["retention"], told["ladder"], told["jitter"], told["defaults"]) == (None, None, None, DEFAULTS)
    await client.put(ORDERS, json={"retention": "1h", "ladder": ["1s"], "jitter": 0.5})
    told = (await client.get(ORDERS)).json()
    assert (told["retention"], told["ladder"], told["jitter"], told["defaults"]) == (HOUR, [1000], 0.5, DEFAULTS)
    assert "defaults" not in (await client.get("/v1/topics")).json()["topics"][0], "once for each would be long"


async def test_a_group_tells_whose_its_ladder_is(client: httpx.AsyncClient, server: SpiedServer) -> None:
    def ladders(told: dict[str, Any]) -> list[Any]:
        return [(one["ladder"], one["jitter"], one["ladder_of"]) for one in (told, told["defaults"])]

    of_server = (RUNGS, 0.0, "server")
    assert ladders((await client.put(BILLING)).json()) == [of_server, of_server]
    await client.put(ORDERS, json={"ladder": ["1s"], "jitter": 0.5})
    of_topic = ([1000], 0.5, "topic")
    assert ladders((await client.get(BILLING)).json()) == [of_topic, of_topic]
    own = (await client.put(BILLING, json={"ladder": []})).json()
    assert ladders(own) == [([], 0.0, "group"), of_topic]
    await client.put(ORDERS, json={"ladder": None})
    assert ladders((await client.get(BILLING)).json()) == [([], 0.0, "group"), of_server]


@pytest.mark.parametrize(
    ("wish", "pointer", "said"),
    [
        ({"queues": 1}, "/queues", "has 2 queues, and queues are never taken away"),
        ({"ordered": True}, "/ordered", "is not ordered, and stays so"),
        ({"kind": "broadcast"}, "/kind", "is of kind 'cluster', and the kind of a topic stays"),
        ({"sequencer": "redis"}, "/sequencer", ""),
    ],
)
async def test_what_stays_as_it_was_made_is_named(
    client: httpx.AsyncClient, wish: dict[str, Any], pointer: str, said: str
) -> None:
    await client.put(ORDERS, json={"queues": 2})
    refused = await client.put(ORDERS, json=wish)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/topic-conflict")
    (error,) = refused.json()["errors"]
    assert (error["pointer"], error["detail"]) == (pointer, refused.json()["detail"])
    assert said in error["detail"]


async def test_queues_of_an_ordered_topic_stay(client: httpx.AsyncClient) -> None:
    await client.put(ORDERS, json={"ordered": True})
    for queues, status in ((1025, 400), (2, 409)):
        refused = await client.put(ORDERS, json={"queues": queues})
        assert faults(refused, status) == ["/queues"]
    assert "is ordered and has 1 queue for good" in refused.json()["detail"]


async def test_a_group_of_an_ordered_topic_may_block(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.topic(ordered=True)
    made = await client.put(BILLING, json={"on_exhausted": "block"})
    assert (made.status_code, made.json()["on_exhausted"]) == (201, "block")
    again = await client.put(BILLING, json={"ladder": ["1s"]})
    assert (again.status_code, again.json()["on_exhausted"]) == (200, "block"), "what is left out stays"
    await client.put(BILLING, json={"on_exhausted": "dead"})
    assert put_groups(server) == [
        ("orders", "billing", None, anew(block=True)),
        ("orders", "billing", Ladder((1000,)), anew(block=True)),
        ("orders", "billing", Ladder((1000,)), anew()),
    ]


async def test_a_groups_concurrency(client: httpx.AsyncClient, server: SpiedServer) -> None:
    made = await client.put(BILLING, json={"concurrency": 5})
    assert (made.status_code, made.json()["concurrency"]) == (201, 5)
    assert (await client.put(BILLING, json={"ladder": ["1s"]})).json()["ladder"] == [1000]
    assert (await client.put(BILLING, json={"concurrency": None})).json()["concurrency"] is None
    assert [limit for _, limit in server.all("catalogue.limit_group")] == [5, None]


async def test_a_group_is_paused_and_resumed(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.group(await server.topic())
    for _ in range(2):
        paused = await client.post(f"{BILLING}/pause")
        assert (paused.status_code, paused.json()["paused"]) == (200, True)
        assert (await client.get(BILLING)).json()["paused"] is True
        assert (await client.get(ORDERS)).json()["groups"][0]["paused"] is True
        assert (await client.put(BILLING, json={"ladder": ["1s"]})).json()["paused"] is True, "it stays"
    for _ in range(2):
        resumed = await client.post(f"{BILLING}/resume")
        assert (resumed.status_code, resumed.json()["paused"]) == (200, False)


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_what_cannot_be_paused(client: httpx.AsyncClient, server: SpiedServer, verb: str) -> None:
    assert (await client.post(f"{BILLING}/{verb}")).json()["type"] == "/problems/unknown-topic"
    topic = await server.topic("news", kind="broadcast")
    assert (await client.post(f"/v1/topics/news/groups/hall/{verb}")).json()["type"] == "/problems/unknown-group"
    await server.group(topic, "hall")
    refused = await client.post(f"/v1/topics/news/groups/hall/{verb}")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/topic-conflict")
    assert (await client.post(f"/v1/topics/news/groups/hall/{verb}?now=1")).status_code == 400


@in_one(
    ("path", "wrong", "rule"),
    [
        (ORDERS, {"kind": "queue"}, "'queue' is not one of broadcast, cluster"),
        (ORDERS, {"sequencer": "kafka"}, "'kafka' is not one of redis, store"),
        (ORDERS, {"queues": 0}, "it must be a whole number from 1 to 1024"),
        (BILLING, {"on_exhausted": "drop"}, "'drop' is not one of block, dead"),
        (BILLING, {"concurrency": 0}, "it must be a whole number from 1 to 1000000"),
    ],
)
async def test_the_whole_rule_is_told(client: httpx.AsyncClient, path: str, wrong: dict[str, Any], rule: str) -> None:
    response = await client.put(path, json=wrong)
    assert [error["detail"] for error in response.json()["errors"]] == [rule]


async def test_a_groups_state(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await busy_group(server)
    state = (await client.get(BILLING)).json()
    del state["ladder"], state["jitter"], state["defaults"]
    assert state == {
        "group": "billing",
        "topic": "orders",
        "ladder_of": "group",
        "concurrency": None,
        "paused": False,
        "backlog": 3,
        "queues": [{"queue": 0, "offset": 7, "end": 9, "lag": 2}],
        "retry_queues": [{"queue": 0, "offset": 2, "end": 3, "lag": 1}],
        "clients": ["c1"],
        "on_exhausted": "dead",
        "parked": 0,
        "claims": 1,
        "claimed": 1,
        "retries": [0, 2],
        "acked": 2,
        "retried": 5,
        "redriven": 0,
        "dead": 1,
        "dead_letters": 1,
        "skipped": 0,
        "expired": 0,
    }


async def test_dead_letters_come_with_their_attempts(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    group, _ = await server.node.catalogue.put_group(topic, "billing", Ladder((0,)))
    receipts = await server.publish(topic, *[b'{"order":  7}'] * 2)
    await server.settle(await server.claim(group), "fail", reason="no ink")
    server.ms += 1000
    for _ in receipts:
        await server.settle(await server.claim(group, size=1, wait=10_000), "fail", reason="lease lost")
    first_id, second_id = sorted(receipt.id for receipt in receipts)
    first = (await client.get(f"{BILLING}/dead?max=1")).json()
    assert (first["messages"][0]["id"], first["cursor"]) == (str(first_id), str(first_id))
    assert first["messages"][0]["body"] == {"order": 7}
    assert first["messages"][0]["dead_at"] == "2026-11-21T10:00:01.000Z"
    assert first["messages"][0]["attempts"] == [
        {"at": "2026-11-21T10:00:00.000Z", "client": "c1", "reason": "no ink"},
        {"at": "2026-11-21T10:00:01.000Z", "client": "c1", "reason": "lease lost"},
    ]
    rest = (await client.get(f"{BILLING}/dead?cursor={first_id}")).json()
    assert ([message["id"] for message in rest["messages"]], rest["cursor"]) == ([str(second_id)], None)


@pytest.mark.parametrize("path", [ORDERS, f"{ORDERS}/groups", BILLING, f"{BILLING}/dead"])
async def test_looking_makes_nothing(client: httpx.AsyncClient, server: SpiedServer, path: str) -> None:
    assert (await client.get(path)).json()["type"] == "/problems/unknown-topic"
    await server.topic()
    response = await client.get(path)
    if path.startswith(BILLING):
        assert response.json()["type"] == "/problems/unknown-group"
    (topic,) = (await client.get("/v1/topics")).json()["topics"]
    assert (topic["topic"], (await client.get(f"{ORDERS}/groups")).json()) == ("orders", {"groups": []})


async def test_a_nudge_is_taken_at_once(client: httpx.AsyncClient, server: SpiedServer) -> None:
    assert (await client.post("/v1/nudge")).status_code == 202
    await server.topic()
    response = await client.post("/v1/nudge", json={"topic": "orders"})
    assert (response.status_code, response.json()) == (202, {"nudged": True})
    assert len(server.all("sweeps.nudge")) == 2
    unknown = await client.post("/v1/nudge", json={"topic": "nosuch"})
    assert unknown.json()["type"] == "/problems/unknown-topic"
    bad = await client.post("/v1/nudge", json={"topic": "a b"})
    assert faults(bad) == ["/topic"]
    assert len(server.all("sweeps.nudge")) == 2
