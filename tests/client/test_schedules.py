"""Schedules: what the client sends, and what it makes of the answers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.scripted_server import LOST, Answer, ScriptedServer, problem
from tarry.client import BadRequest, Fire, Schedule, Tarry

PATH = "/v1/schedules/daily"
SPEC: dict[str, Any] = {"topic": "orders", "cron": "0 9 * * *", "timezone": "Europe/Berlin", "body": {"a": 1}}
TOLD: dict[str, Any] = {
    "name": "daily",
    "spec": SPEC,
    "next": ["2026-01-01T08:00:00.000Z"],
    "paused": False,
    "revision": 9,
}
AT = datetime(2026, 1, 1, 8, tzinfo=UTC)
DAILY = Schedule("daily", SPEC, (AT,), False, 9)


def test_put(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(LOST, Answer(201, TOLD))
    daily = tarry.put_schedule(
        "daily", topic="orders", body={"a": 1}, cron="0 9 * * *", timezone="Europe/Berlin", match=8
    )
    assert daily == DAILY
    first, second = script.requests
    assert (first.method, first.path, first.headers["If-Match"]) == ("PUT", PATH, '"8"')
    assert first.json == second.json == SPEC


def test_all_that_may_be_said(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, TOLD))
    tarry.put_schedule(
        "daily",
        topic="orders",
        body=b"\xff",
        content_type="image/png",
        every=timedelta(hours=1),
        starts_at=AT,
        ends_at="2027-01-01T00:00:00Z",
        jitter="30s",
        misfire={"catch_up": "1h"},
        overlap="skip",
        group="billing",
        key="k",
        headers={"a": "b"},
        tag="t",
        ordering_key="o",
        paused=True,
        dry_run=True,
    )
    (asked,) = script.requests
    assert asked.path == f"{PATH}?dry_run=true"
    assert asked.json == {
        "topic": "orders",
        "body_base64": "/w==",
        "content_type": "image/png",
        "every": 3_600_000,
        "starts_at": "2026-01-01T08:00:00.000Z",
        "ends_at": "2027-01-01T00:00:00Z",
        "jitter": "30s",
        "misfire": {"catch_up": "1h"},
        "overlap": "skip",
        "group": "billing",
        "key": "k",
        "headers": {"a": "b"},
        "tag": "t",
        "ordering_key": "o",
        "paused": True,
    }


def test_what_is_wrong_is_told(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(problem(400, detail="/cron: the hour field '25' is not in order"))
    with pytest.raises(BadRequest, match="the hour field"):
        tarry.put_schedule("daily", topic="orders", body=1, cron="0 25 * * *")


def test_looks_and_switches(script: ScriptedServer, tarry: Tarry) -> None:
    page: dict[str, Any] = {
        "fires": [{"fire_at": TOLD["next"][0], "what": "fired", "at": TOLD["next"][0], "id": "7"}],
        "cursor": None,
    }
    script.say(
        Answer(200, TOLD),
        Answer(200, {"schedules": [TOLD], "cursor": None}),
        Answer(200, TOLD),
        Answer(200, TOLD),
        Answer(201, {"id": "7", "fire_at": TOLD["next"][0]}),
        Answer(200, {"times": TOLD["next"]}),
        Answer(200, page),
        Answer(200, {"times": 2, "sent": 1}),
        Answer(200, {"name": "daily", "result": "removed"}),
        Answer(200, {"name": "daily", "result": "removed", "unsent": [page["fires"][0] | {"what": "cancelled"}]}),
    )
    assert tarry.schedule("daily") == DAILY
    assert list(tarry.schedules()) == [DAILY]
    assert tarry.pause_schedule("daily") == tarry.resume_schedule("daily") == DAILY
    assert tarry.run_schedule("daily") == "7"
    assert tarry.next_times("daily", 1) == [AT]
    assert list(tarry.fires("daily")) == [Fire(AT, "fired", AT, "7")]
    assert tarry.backfill_schedule("daily", AT, "2026-01-02T00:00:00Z") == {"times": 2, "sent": 1}
    assert tarry.delete_schedule("daily") == ()
    assert tarry.delete_schedule("daily", match=9) == (Fire(AT, "cancelled", AT, "7"),)
    asked = [f"{one.method} {one.path.removeprefix('/v1/schedules')}" for one in script.requests]
    assert asked == [
        "GET /daily",
        "GET ",
        "POST /daily/pause",
        "POST /daily/resume",
        "POST /daily/run",
        "GET /daily/next?count=1",
        "GET /daily/fires",
        "POST /daily/backfill",
        "DELETE /daily",
        "DELETE /daily",
    ]
    assert script.requests[-1].headers["If-Match"] == '"9"'
