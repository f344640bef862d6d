"""What the client sends to operate, and that it goes on until the server is done."""

from datetime import UTC, datetime, timedelta

import pytest

from support.scripted_server import LOST, Answer, ScriptedServer, problem
from tarry.client import Tarry, TarryError, Unavailable
from tarry.client.errors import Conflict, NotFound

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("to", "queue", "sent"),
    [
        ("earliest", None, "earliest"),
        (7, 1, {"offset": 7, "queue": 1}),
        (AT, None, {"time": "2026-01-01T00:00:00.000Z"}),
        ("2026-01-01T00:00:00Z", 0, {"time": "2026-01-01T00:00:00Z", "queue": 0}),
    ],
)
def test_seek(script: ScriptedServer, tarry: Tarry, to: str | int | datetime, queue: int | None, sent: object) -> None:
    script.say(Answer(200, {"queues": [{"queue": 1, "offset": 7}]}))
    assert tarry.seek("orders", "billing", to, queue=queue) == {1: 7}
    assert script.requests[0].path == "/v1/topics/orders/groups/billing/seek"
    assert script.requests[0].json == {"to": sent, "dry_run": False}


def test_one_queue_to_the_latest_is_refused_here(tarry: Tarry) -> None:
    with pytest.raises(ValueError, match="queue goes with"):
        tarry.seek("orders", "billing", "latest", queue=1)


def test_a_redrive_goes_on_with_the_time_of_its_first_answer(script: ScriptedServer, tarry: Tarry) -> None:
    first, last = {"redriven": 200, "more": True, "to": "T"}, {"redriven": 7, "more": False, "to": "T"}
    script.say(Answer(200, first), LOST, Answer(200, last))
    progress: list[int] = []
    assert tarry.redrive("orders", "billing", rate=50, on_progress=progress.append) == 207
    assert progress == [200, 207]
    assert script.requests[0].json == {"rate": 50, "dry_run": False}
    assert script.requests[1].json == script.requests[2].json == {"rate": 50, "dry_run": False, "to": "T"}


def test_purge(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"purged": 2, "more": False, "to": "T"}))
    assert tarry.purge("orders", "billing", ["5", "6"], start=AT, dry_run=True) == 2
    assert script.requests[0].path == "/v1/topics/orders/groups/billing/dead/purge"
    assert script.requests[0].json == {"ids": ["5", "6"], "from": "2026-01-01T00:00:00.000Z", "dry_run": True}


def test_what_is_deleted(script: ScriptedServer, tarry: Tarry) -> None:
    for _ in range(3):
        script.say(Answer(200, {"result": "removed"}))
    tarry.delete_group("a b", "g")
    tarry.delete_topic("orders")
    tarry.delete_topic("orders", force=True)
    assert [(request.method, request.path) for request in script.requests] == [
        ("DELETE", "/v1/topics/a%20b/groups/g"),
        ("DELETE", "/v1/topics/orders"),
        ("DELETE", "/v1/topics/orders?force=true"),
    ]
    script.say(problem(409, detail="3 that wait"))
    with pytest.raises(Conflict, match="3 that wait"):
        tarry.delete_topic("orders")


def test_a_replay_is_not_tried_again_by_itself(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"replayed": 3, "more": True}), Answer(200, {"replayed": 1, "more": False}))
    assert tarry.replay("orders", "billing", 3, AT, queue=0) == 4
    asked = {"from": 3, "to": "2026-01-01T00:00:00.000Z", "queue": 0, "dry_run": False}
    assert [request.json for request in script.requests] == [asked, asked]
    script.say(LOST)
    with pytest.raises(Unavailable):
        tarry.replay("orders", "billing", "earliest")
    assert len(script.requests) == 3
    script.say(Answer(200, {"replayed": 2, "more": False}))
    assert tarry.replay("orders", "billing", 3, 5, queue=0, name="monday") == 2
    assert script.requests[-1].json == {"from": 3, "to": 5, "queue": 0, "dry_run": False, "name": "monday"}


def test_pages(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"messages": [], "cursor": "9"}), Answer(200, {"messages": [], "cursor": None}))
    assert list(tarry.dead_letters("orders", "billing", key="k", reason="ink")) == []
    script.say(Answer(200, {"messages": [{"id": "1"}], "cursor": "0-9"}), Answer(200, {"messages": [], "cursor": None}))
    assert list(tarry.find("orders", state="scheduled", start=AT)) == [{"id": "1"}]
    assert [request.path for request in script.requests] == [
        "/v1/topics/orders/groups/billing/dead?key=k&reason=ink",
        "/v1/topics/orders/groups/billing/dead?key=k&reason=ink&cursor=9",
        "/v1/messages?topic=orders&state=scheduled&from=2026-01-01T00%3A00%3A00.000Z",
        "/v1/messages?topic=orders&state=scheduled&from=2026-01-01T00%3A00%3A00.000Z&cursor=0-9",
    ]


def test_clients_page_by_page(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"clients": [{"client": "a b"}], "cursor": "a b"}))
    script.say(Answer(200, {"clients": [{"client": "c"}], "cursor": None}))
    assert [one["client"] for one in tarry.clients()] == ["a b", "c"]
    assert [request.path for request in script.requests] == ["/v1/clients", "/v1/clients?cursor=a+b"]


def test_back_to_the_default(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200), Answer(200), Answer(200))
    tarry.put_group("orders", "billing", ladder="default")
    tarry.put_topic("orders", ladder="default", retention="default", queues=2)
    tarry.put_group("orders", "billing", ladder=["10s"], jitter=0.5, start="latest")
    assert [request.json for request in script.requests] == [
        {"ladder": None},
        {"queues": 2, "retention": None, "ladder": None},
        {"ladder": ["10s"], "jitter": 0.5, "from": "latest"},
    ]


def test_push(script: ScriptedServer, tarry: Tarry) -> None:
    told = {"state": "on", "url": "https://a.example/"}
    script.say(Answer(201, told), Answer(200, told), Answer(200, told), Answer(200, {}), problem(404))
    assert tarry.put_push("orders", "billing", "https://a.example/", "whsec_a") == told
    tarry.put_push(
        "orders",
        "billing",
        "https://a.example/",
        ("whsec_a", "whsec_b"),
        timeout=timedelta(seconds=2),
        max_in_flight=3,
    )
    assert tarry.get_push("orders", "billing") == told
    tarry.delete_push("orders", "billing")
    with pytest.raises(NotFound):
        tarry.get_push("orders", "billing")
    path = "/v1/topics/orders/groups/billing/push"
    asked = [(request.method, request.path) for request in script.requests]
    assert asked == [("PUT", path), ("PUT", path), ("GET", path), ("DELETE", path), ("GET", path)]
    assert [request.json for request in script.requests[:2]] == [
        {"url": "https://a.example/", "secret": "whsec_a"},
        {"url": "https://a.example/", "secret": ["whsec_a", "whsec_b"], "timeout": 2000, "max_in_flight": 3},
    ]


def test_metrics_are_text(script: ScriptedServer, tarry: Tarry) -> None:
    text = "# TYPE a gauge\na 1.0\n"
    script.say(Answer(200, content=text.encode(), headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"}))
    script.say(Answer(200, content=text.encode(), headers={"content-type": "text/plain"}))
    assert tarry.metrics() == text
    with pytest.raises(TarryError, match="is it Tarry"):
        tarry.metrics()


def test_the_first_topics_alone(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"topics": [{"topic": "a"}], "cursor": "more"}))
    assert tarry.topics("rate", limit=1) == [{"topic": "a"}]
    assert script.requests[0].path == "/v1/topics?sort=rate&max=1"


def test_groups_come_in_pages(script: ScriptedServer, tarry: Tarry) -> None:
    a, b = {"topic": "t", "group": "a"}, {"topic": "t", "group": "b"}
    script.say(Answer(200, {"groups": [a, b], "cursor": "7:t:b"}))
    script.say(Answer(200, {"groups": [b], "cursor": None}))
    script.say(Answer(200, {"groups": [a], "cursor": "7:t:a"}))
    assert tarry.groups("backlog", topic="t") == [a, b]
    assert tarry.groups(limit=1) == [a]
    assert [request.path for request in script.requests] == [
        "/v1/groups?sort=backlog&topic=t&max=1000",
        "/v1/groups?sort=backlog&topic=t&max=1000&cursor=7%3At%3Ab",
        "/v1/groups?sort=name&max=1",
    ]
