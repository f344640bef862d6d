"""Timers by key: what the client sends, and what it makes of the answers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from support.scripted_server import LOST, Answer, ScriptedServer, problem
from tarry.client import Changed, Tarry, Timer, TooLate

PATH = "/v1/topics/orders/timers/order%2F7"
SET: dict[str, Any] = {
    "id": "5",
    "key": "order/7",
    "revision": 9,
    "deliver_at": "2026-01-01T00:00:00.000Z",
    "state": "scheduled",
}
AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_set(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(LOST, Answer(200, SET | {"replaced": "4", "replayed": True, "load": 3, "late_by": 40}))
    timer = tarry.set_timer("orders", "order/7", {"a": 1}, delay="30m", mode="debounce", max_wait="1h", match=8)
    assert timer == Timer("5", "order/7", 9, AT, "scheduled", "4", replayed=True, load=3, late_by=40)
    first, second = script.requests
    assert (first.method, first.path, first.headers["If-Match"]) == ("PUT", PATH, '"8"')
    assert first.json == second.json, "with one idempotency key"
    sent = {"body": {"a": 1}, "delay": "30m", "mode": "debounce", "max_wait": "1h"}
    assert first.json == sent | {"idempotency_key": first.json["idempotency_key"]}


def test_only_when_none_waits(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(problem(412, detail="it is at revision 9", revision=9))
    with pytest.raises(Changed, match="at revision 9") as no:
        tarry.set_timer("orders", "order/7", None, delay="30m", match=0)
    assert no.value.problem["revision"] == 9
    assert script.requests[0].headers["If-None-Match"] == "*"


def test_pages(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"timers": [SET], "cursor": "order/7"}), Answer(200, {"timers": [], "cursor": None}))
    assert list(tarry.timers("a b")) == [Timer("5", "order/7", 9, AT, "scheduled")]
    assert [request.path for request in script.requests] == [
        "/v1/topics/a%20b/timers",
        "/v1/topics/a%20b/timers?cursor=order%2F7",
    ]


def test_look_and_cancel(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, SET | {"state": "published", "queue": 0, "offset": 3}), Answer(200, {"result": "cancelled"}))
    script.say(problem(409, detail="it had been handed out", result="too_late"))
    script.say(Answer(200, {"cancelled": 2, "too_late": 1}))
    assert tarry.timer("orders", "order/7") == Timer("5", "order/7", 9, AT, "published", queue=0, offset=3)
    assert tarry.cancel_timer("orders", "order/7", match=9) == "cancelled"
    with pytest.raises(TooLate):
        tarry.cancel_timer("orders", "order/7")
    assert tarry.cancel_key("orders", "order 7") == {"cancelled": 2, "too_late": 1}
    assert [(request.method, request.path) for request in script.requests] == [
        ("GET", PATH),
        ("DELETE", PATH),
        ("DELETE", PATH),
        ("DELETE", "/v1/topics/orders/messages?key=order+7"),
    ]
    assert [request.headers.get("If-Match") for request in script.requests] == [None, '"9"', None, None]
