"""/v1/schedules: messages that come again and again."""

from typing import Any

import httpx
import pytest

from support.failing import failing
from support.in_one import in_one
from support.json_schema import fits
from support.spied import NOW, SpiedServer
from support.wrong_input import faults
from tarry.service.durations import format_time
from tarry.service.http.openapi import document
from tarry.store.errors import Unavailable
from tarry.store.schedules import schedules

DAILY = "/v1/schedules/daily"
MINUTE = 60_000
BERLIN = {"cron": "0 9 * * *", "timezone": "Europe/Berlin", "topic": "orders", "body": {"a": 1}}


async def put(client: httpx.AsyncClient, path: str = DAILY, *, only: Any = None, **fields: Any) -> httpx.Response:
    spec = {"every": "1m", "topic": "orders", "body": {"a": 1}} | fields
    return await client.put(path, json={k: v for k, v in spec.items() if v is not None}, headers=only)


async def turn(server: SpiedServer, ms: int) -> None:
    """So much later what is due is promoted."""
    server.ms += ms
    rows = await server.node.store.read(schedules.page, "", 100)
    await server.node.promotion.promote([row.next_id for row in rows if row.next_id is not None])


async def test_made_looked_at_and_removed(client: httpx.AsyncClient) -> None:
    made = await client.put(DAILY, json=BERLIN)
    assert made.status_code == 201, made.text
    told = made.json()
    assert told == {
        "name": "daily",
        "spec": BERLIN,
        "next": [f"2026-11-{day}T08:00:00.000Z" for day in range(22, 27)],
        "paused": False,
        "revision": NOW,
    }
    assert made.headers["etag"] == f'"{NOW}"'
    assert (await client.get(DAILY)).json() == told
    assert (await client.get("/v1/schedules")).json() == {"schedules": [told], "cursor": None}
    again = await client.put(DAILY, json=BERLIN)
    assert (again.status_code, again.json()) == (200, told)
    assert (await client.delete(DAILY)).json() == {"name": "daily", "result": "removed"}
    for method, path in [("GET", DAILY), ("DELETE", DAILY), ("POST", f"{DAILY}/run"), ("GET", f"{DAILY}/next")]:
        gone = await client.request(method, path)
        assert (gone.status_code, gone.json()["type"]) == (404, "/problems/unknown-schedule")
    assert (await client.get("/v1/topics/orders")).json()["pending"] == 0


@in_one(
    ("fields", "pointer", "said"),
    [
        ({"every": None, "cron": "0 25 * * *"}, "/cron", "the hour field '25' is not in order: write 0 to 23"),
        ({"every": None, "cron": "*/90 * * * *"}, "/cron", "has the step 90, and comes once in 60 all the same"),
        ({"every": None, "cron": "0 9 * * *", "timezone": "Berlin"}, "/timezone", "did you mean 'Europe/Berlin'?"),
        ({"every": None, "cron": "0 9 * * *", "timezone": ""}, "/timezone", "it is empty: write an IANA name"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "/ends_at", "no fire time comes until then: the server's time is"),
        ({"every": "365d", "ends_at": "2027-01-01T00:00:00Z"}, "/ends_at", "no fire time comes until then"),
        ({"overlap": "skip"}, "/group", "wants the group"),
        ({"overlap": "queue_two", "group": "billing"}, "/overlap", "queue_one"),
        ({"body": None}, "/body", "a message has body or body_base64"),
        ({"headers": {"tarry-schedule": "x"}}, "/headers", "is set by the schedule"),
        ({"topic": "a b"}, "/topic", "a name is"),
        ({"misfire": {"catch_up": "1y"}}, "/misfire/catch_up", "years and months"),
        ({"misfire": "never"}, "/misfire", "'never' is not one of once, skip"),
        ({"paused": 1}, "/paused", "it must be true, false or null, not a whole number"),
        ({"misfire": {"catchup": "1h"}}, "/misfire/catchup", "unknown field; did you mean `catch_up`?"),
        ({"misfire": {"catch_up": "1h", "x": 1}}, "/misfire/x", "unknown field; there are catch_up"),
        ({"misfire": {}}, "/misfire/catch_up", "it is required"),
    ],
)
async def test_what_is_wrong_is_told_with_its_field(
    client: httpx.AsyncClient, fields: dict[str, Any], pointer: str, said: str
) -> None:
    refused = await put(client, **fields)
    assert refused.status_code == 400
    (error,) = refused.json()["errors"]
    assert (error["pointer"], said in error["detail"]) == (pointer, True), error
    assert (await client.get(DAILY)).status_code == 404


async def test_what_has_ended_is_declared_again_and_no_end_is_put_into_the_past(
    server: SpiedServer, client: httpx.AsyncClient
) -> None:
    end = format_time(NOW + 2 * MINUTE)
    for query in ("?dry_run=true", ""):
        assert (await put(client, DAILY + query, ends_at=format_time(NOW))).status_code == 400
    assert (await put(client, ends_at=end)).status_code == 201
    for _ in range(3):
        await turn(server, MINUTE)
    again = await put(client, ends_at=end)
    assert (again.status_code, again.json()["next"]) == (200, [])
    assert (await put(client, ends_at=end.replace("Z", "+00:00"), body="other")).status_code == 200
    for other in (NOW + MINUTE, server.ms):
        refused = await put(client, ends_at=format_time(other))
        assert faults(refused) == ["/ends_at"]
    assert (await put(client, ends_at=None)).json()["next"] != []
    # It may end before its next fire time: the last has been.
    assert (await put(client, ends_at=format_time(server.ms + 1))).json()["next"] == []


@in_one(
    ("fields", "allowed"),
    [
        ({}, True),
        ({"every": None, "cron": "* * * * *", "timezone": "UTC"}, True),
        ({"timezone": "UTC"}, False),
        ({"cron": "* * * * *"}, False),
        ({"every": None}, False),
        ({"overlap": "skip", "group": "billing"}, True),
        ({"overlap": "allow", "group": "billing"}, False),
        ({"overlap": "queue_one"}, False),
        ({"overlap": "queue_one", "group": "billing"}, True),
        ({"misfire": "skip"}, True),
        ({"misfire": {"catch_up": "1h"}}, True),
        ({"body": None, "body_base64": "AP8="}, True),
        ({"content_type": "image/png"}, False),
        ({"evry": "1m"}, False),
    ],
)
async def test_what_the_document_says_of_a_body(
    client: httpx.AsyncClient, fields: dict[str, Any], allowed: bool
) -> None:
    described = document()["paths"]["/v1/schedules/{name}"]["put"]["requestBody"]["content"]
    body = {k: v for k, v in ({"every": "1m", "topic": "orders", "body": 1} | fields).items() if v is not None}
    assert fits(body, described["application/json"]["schema"]) == allowed
    assert (await client.put(DAILY, json=body)).status_code == (201 if allowed else 400)
    assert (await client.delete(DAILY)).status_code == (200 if allowed else 404)


async def test_dry_run_changes_nothing(client: httpx.AsyncClient) -> None:
    told = await put(client, f"{DAILY}?dry_run=true")
    assert (told.status_code, len(told.json()["next"]), told.json()["revision"]) == (200, 5, 0)
    assert (await client.get(DAILY)).status_code == 404
    assert (await client.get("/v1/topics/orders")).status_code == 404


async def test_its_turns_and_its_fires(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await put(client, key="k", headers={"a": "b"})
    assert len(server.node.pending.wheel) == 1
    for _ in range(3):
        await turn(server, MINUTE)
    fires = (await client.get(f"{DAILY}/fires?max=2")).json()
    assert [one["what"] for one in fires["fires"]] == ["fired", "fired"]
    rest = (await client.get(f"{DAILY}/fires?max=2&cursor={fires['cursor']}")).json()
    assert (len(rest["fires"]), rest["cursor"]) == (1, None)
    message = (await client.get(f"/v1/messages/{rest['fires'][0]['id']}")).json()
    assert (message["key"], message["body"]) == ("k", {"a": 1})
    assert message["headers"] == {"a": "b", "tarry-schedule": "daily", "tarry-fire-at": rest["fires"][0]["fire_at"]}
    counts = (await client.get("/v1/topics/orders")).json()
    assert (counts["accepted"], counts["streamed"], counts["pending"]) == (4, 3, 1)


async def test_one_that_is_kept_back(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.put("/v1/topics/orders", json={})
    await client.put("/v1/topics/orders/groups/billing", json={})
    await put(client, overlap="queue_one", group="billing")
    accepted = (await client.get("/v1/topics/orders")).json()["accepted"]
    for _ in range(3):
        await turn(server, MINUTE)
    fires = (await client.get(f"{DAILY}/fires")).json()["fires"]
    assert [one["what"] for one in fires] == ["overlapped", "kept", "fired"]
    assert (await client.get(f"/v1/messages/{fires[1]['id']}")).json()["state"] == "scheduled"
    assert (await client.get(DAILY)).json()["next"][0] > fires[0]["fire_at"], "what is kept back has had its turn"
    assert (await client.get("/v1/topics/orders")).json()["accepted"] == accepted + 1


async def test_what_was_missed_in_a_row_is_told_with_the_first(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await put(client, misfire="skip")
    await turn(server, 10 * MINUTE + 1)
    (missed,) = (await client.get(f"{DAILY}/fires")).json()["fires"]
    assert (missed["what"], missed["fire_at"]) == ("missed", format_time(NOW + MINUTE))
    assert missed["missed_until"] == format_time(NOW + 9 * MINUTE + 1)
    past = {"from": missed["fire_at"], "to": missed["missed_until"]}
    assert (await client.post(f"{DAILY}/backfill", json=past)).json() == {"times": 9, "sent": 9}
    fires = (await client.get(f"{DAILY}/fires")).json()["fires"]
    assert [one.get("missed_until") for one in fires] == [*[None] * 8, missed["missed_until"]]


async def test_what_one_message_stood_for_is_made_up_for(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await put(client)
    await turn(server, 10 * MINUTE + 1)
    (fired,) = (await client.get(f"{DAILY}/fires")).json()["fires"]
    assert (fired["what"], fired["missed_until"]) == ("fired", format_time(server.ms + 1))
    server.ms += 1
    past = {"from": fired["fire_at"], "to": fired["missed_until"]}
    assert (await client.post(f"{DAILY}/backfill", json=past)).json() == {"times": 10, "sent": 9}


async def test_a_step_that_was_set_before_goes_on(
    client: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec: dict[str, Any] = {"every": None, "cron": "*/90 * * * *"}
    with monkeypatch.context() as before:
        before.setattr("tarry.service.http.schedules.check_steps", lambda _: None)
        await put(client, **spec)
    assert (await put(client, **spec, paused=True)).status_code == 200
    assert (await put(client, **spec | {"cron": "*/91 * * * *"})).status_code == 400


async def test_after_a_cancel_it_goes_on_at_once(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.node.loader.recovered.wait()  # what is made while a start reads may be in the wheel twice
    before = (await put(client)).json()["next"]
    row = await server.node.store.read(schedules.find_schedule, "daily")
    assert row is not None
    assert (await client.delete(f"/v1/messages/{row.next_id}")).status_code == 200
    assert (await client.get(DAILY)).json()["next"][:4] == before[1:]
    (fire,) = (await client.get(f"{DAILY}/fires")).json()["fires"]
    assert (fire["fire_at"], fire["what"]) == (before[0], "cancelled")
    assert len(server.node.pending.wheel) == 1
    await turn(server, 2 * MINUTE)
    assert (await client.get(f"{DAILY}/fires")).json()["fires"][0]["what"] == "fired"


async def test_a_cancel_is_told_where_the_store_goes_away_behind_it(
    client: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(client)
    row = await server.node.store.read(schedules.find_schedule, "daily")
    assert row is not None
    monkeypatch.setattr(schedules, "mend", failing(Unavailable("away")))
    assert (await client.delete(f"/v1/messages/{row.next_id}")).status_code == 200


async def test_what_a_change_drops_leaves_the_wheel(client: httpx.AsyncClient, server: SpiedServer) -> None:
    for every in ("1m", "2m", "3m"):
        await put(client, every=every)
        assert len(server.node.pending.wheel) == 1
    await client.post(f"{DAILY}/pause")
    assert len(server.node.pending.wheel) == 0
    await client.post(f"{DAILY}/resume")
    await client.delete(DAILY)
    assert len(server.node.pending.wheel) == 0


async def test_a_change_loses_nothing_that_has_come(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await put(client, jitter="50s")
    id_ = (await client.get("/v1/messages?topic=orders&state=scheduled")).json()["messages"][0]["id"]
    server.ms += MINUTE + 1
    changed = await put(client, jitter="50s", body=2)
    assert changed.json()["next"][0] == format_time(NOW + 2 * MINUTE)
    assert [(one["what"], one["id"]) for one in (await client.get(f"{DAILY}/fires")).json()["fires"]] == [
        ("fired", id_)
    ]
    server.ms += MINUTE
    await server.node.promotion.promote([int(id_)])
    message = (await client.get(f"/v1/messages/{id_}")).json()
    assert (message["state"], message["body"]) == ("published", {"a": 1})
    paused = await client.post(f"{DAILY}/pause")
    assert paused.json()["next"] == []
    fires = (await client.get(f"{DAILY}/fires")).json()["fires"]
    assert [(one["fire_at"], one["what"]) for one in fires] == [
        (format_time(NOW + 2 * MINUTE), "cancelled"),
        (format_time(NOW + MINUTE), "fired"),
    ]
    assert (await client.get(f"/v1/messages/{fires[0]['id']}")).json()["state"] == "cancelled"
    await client.post(f"{DAILY}/resume")
    server.ms += MINUTE
    removed = (await client.delete(DAILY)).json()
    assert [(one["fire_at"], one["what"]) for one in removed["unsent"]] == [
        (format_time(NOW + 3 * MINUTE), "cancelled")
    ]


@pytest.mark.slow
async def test_a_change_of_what_is_far_behind(client: httpx.AsyncClient, server: SpiedServer) -> None:
    """What has come is sent first, and so much at a time."""
    await put(client, every="1s", misfire={"catch_up": "1h"})
    server.ms += 600_000
    busy = await put(client, every="1s", body=2)
    assert (busy.status_code, busy.json()["type"]) == (503, "/problems/busy")
    assert "behind its time" in busy.json()["detail"]
    answers = [busy.status_code]
    while answers[-1] == 503:  # the hand sends some of them meanwhile
        answers.append((await put(client, every="1s", body=2)).status_code)
    assert answers[-1] == 200
    assert len(answers) <= 7
    fires = (await client.get(f"{DAILY}/fires?max=1000")).json()["fires"]
    assert [one["what"] for one in fires] == ["fired"] * 600


async def test_pause_run_resume(client: httpx.AsyncClient) -> None:
    await put(client)
    paused = (await client.post(f"{DAILY}/pause")).json()
    assert (paused["paused"], paused["next"]) == (True, [])
    assert len((await client.get(f"{DAILY}/next?count=3")).json()["times"]) == 3
    run = await client.post(f"{DAILY}/run")
    assert run.status_code == 201
    assert (await client.get(f"/v1/messages/{run.json()['id']}")).json()["body"] == {"a": 1}
    assert (await put(client, body=2)).json()["paused"], "a change leaves it as it is"
    assert not (await client.post(f"{DAILY}/resume")).json()["paused"]
    assert len((await client.get(DAILY)).json()["next"]) == 5


async def test_backfill(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await put(client, starts_at="2026-11-21T09:00:00Z")
    past = {"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T09:10:00Z"}
    assert (await client.post(f"{DAILY}/backfill", json=past | {"dry_run": True})).json() == {"times": 10, "sent": 10}
    assert (await client.post(f"{DAILY}/backfill", json=past)).json() == {"times": 10, "sent": 10}
    assert (await client.post(f"{DAILY}/backfill", json=past | {"dry_run": True})).json() == {"times": 10, "sent": 0}
    assert (await client.post(f"{DAILY}/backfill", json=past)).json() == {"times": 10, "sent": 0}
    for wrong, said in [
        ({"to": "2026-11-21T08:00:00Z"}, "not after from"),
        ({"to": "2027-11-21T08:00:00Z"}, "lies ahead"),
    ]:
        refused = await client.post(f"{DAILY}/backfill", json=past | wrong)
        assert (refused.status_code, said in refused.json()["detail"]) == (400, True)
    await put(client, "/v1/schedules/often", every="1s", starts_at="2026-11-21T09:00:00Z")
    refused = await client.post("/v1/schedules/often/backfill", json=past | {"to": "2026-11-21T09:59:00Z"})
    assert "there are more than 1000 fire times" in refused.json()["detail"]


async def test_revisions(client: httpx.AsyncClient) -> None:
    assert (await put(client, only={"If-Match": '"1"'})).status_code == 412
    assert (await put(client, only={"If-None-Match": "*"})).status_code == 201
    refused = await put(client, only={"If-None-Match": "*"}, body=2)
    assert (refused.status_code, refused.json()["revision"]) == (412, NOW)
    changed = await put(client, only={"If-Match": f'"{NOW}"'}, body=2)
    assert changed.json()["revision"] == NOW + 1
    assert (await client.delete(DAILY, headers={"If-Match": f'"{NOW}"'})).status_code == 412
    assert (await client.delete(DAILY, headers={"If-Match": f'"{NOW + 1}"'})).status_code == 200


async def test_pages(client: httpx.AsyncClient) -> None:
    for nth in range(5):
        await put(client, f"/v1/schedules/it-{nth}")
    first = (await client.get("/v1/schedules?max=3")).json()
    rest = (await client.get(f"/v1/schedules?max=3&cursor={first['cursor']}")).json()
    assert [one["name"] for one in first["schedules"] + rest["schedules"]] == [f"it-{nth}" for nth in range(5)]
    assert rest["cursor"] is None
