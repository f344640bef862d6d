"""Each page: its data, what others wrote escaped, and what it lets do."""

import csv
import io
import re
import shlex
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import structlog

from support.html_page import HTMLPage
from support.spied import NOW, SpiedServer
from tarry.service.cli.app import app as command_line
from tarry.service.dashboard.pages import groups, messages, timers
from tarry.service.dashboard.routes import ROUTES
from tarry.service.engine.dispatch.guards import Guards, GuardState
from tarry.store.looking import finding
from tarry.store.schedules import schedules
from tarry.wheel.ladder import Ladder

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>"
EMPTY = ["/ui", "/ui/topics", "/ui/groups", "/ui/messages", "/ui/schedules", "/ui/dead", "/ui/nodes", "/ui/reports"]


def read(response: httpx.Response) -> HTMLPage:
    """A page that is whole, and has nothing that its policy forbids."""
    reader = HTMLPage(response.text)
    for tag, attributes in reader.elements:
        assert "style" not in attributes, "the policy lets no style in an attribute through"
        assert not [name for name in attributes if name.startswith("on")]
        if tag == "script":
            assert (attributes.get("src") or "").startswith("/ui/static/")
        assert tag != "style"
    return reader


def commands(reader: HTMLPage) -> list[str]:
    """What can be copied."""
    return [attributes["data-copy"] or "" for _, attributes in reader.elements if "data-copy" in attributes]


def links(reader: HTMLPage) -> set[str]:
    return {attributes.get("href") or "" for tag, attributes in reader.elements if tag == "a"}


async def fill(server: SpiedServer) -> dict[str, int]:
    """A topic with a message in each place, and people who mean no good."""
    topic = await server.topic()
    group = await server.group(topic)
    (waits,) = await server.publish(topic, b'{"order": 7}', deliver_at=NOW + 60_000, key="order-7")
    (hostile,) = await server.publish(
        topic,
        b'{"</pre><script>alert(3)</script>": "<img src=x onerror=alert(4)>"}',
        deliver_at=NOW + 61_000,
        key=HOSTILE,
        tag=HOSTILE,
        headers=b'{"<script>alert(5)</script>": "<b>"}',
    )
    await server.publish(topic, b"1", b"2", b"3")
    claim = await server.claim(group, client=HOSTILE, size=2)
    first, second = [delivered.id for delivered in claim.messages]
    await server.settle(claim, "ack", first)
    await server.settle(claim, "fail", second, reason=HOSTILE)
    return {"waits": waits.id, "hostile": hostile.id, "acked": first, "failed": second}


async def test_an_empty_page_teaches(browser: httpx.AsyncClient) -> None:
    for address in EMPTY:
        response = await browser.get(address)
        assert response.status_code == 200, address
        reader = read(response)
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert [one for one in commands(reader) if one.startswith(("tarry ", "TARRY_"))], address
        assert [one for one in reader.elements if one[0] == "h1"]


async def test_what_is_taught_can_be_typed(browser: httpx.AsyncClient) -> None:
    """Each command is one of `tarry`, with flags that it has."""
    told: set[str] = set()
    for address in EMPTY:
        told |= {one for one in commands(read(await browser.get(address))) if one.startswith("tarry ")}
    assert len(told) > 8
    for one in told - {one for one in told if one.startswith("tarry pipeline")}:  # which takes its words as they are
        command_line.parse_args(shlex.split(one)[1:], print_error=False, exit_on_error=False)


@pytest.mark.slow
async def test_each_page_is_whole(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    ids = await fill(server)
    await put_schedule(browser)
    for path in [place.path for place in ROUTES if place.show is not None]:
        for id_ in ids.values() if "{id}" in path else [0]:
            address = path.format(topic="orders", group="billing", id=id_, name="daily")
            response = await browser.get(address)
            assert response.status_code == 200, address
            read(response)


async def test_the_reference_is_a_click_away(browser: httpx.AsyncClient) -> None:
    links = {a.get("href") for name, a in read(await browser.get("/ui")).elements if name == "a"}
    assert "/docs" in links
    assert (await browser.get("/docs")).headers["content-type"].startswith("text/html")


async def put_schedule(browser: httpx.AsyncClient) -> None:
    wanted = {"topic": "orders", "cron": "0 9 * * *", "body": {HOSTILE: 1}, "key": HOSTILE}
    assert (await browser.put("/v1/schedules/daily", json=wanted)).status_code == 201


async def test_what_others_wrote_is_text(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    ids = await fill(server)
    await put_schedule(browser)
    for address in (
        f"/ui/messages/{ids['hostile']}",
        f"/ui/messages/{ids['failed']}",
        "/ui/messages?topic=orders&state=scheduled",
        "/ui/schedules/daily",
    ):
        reader = read(await browser.get(address))
        assert not [one for one in reader.elements if one[0] == "img"]
        assert any("alert(" in text for text in reader.text), address
    for query in ({"topic": HOSTILE, "key": "k"}, {"id": HOSTILE}, {"topic": "orders", "key": HOSTILE}):
        response = await browser.get("/ui/messages", params=query, follow_redirects=True)
        assert "<script>alert" not in response.text
        assert "<img" not in response.text


async def test_what_a_table_says_can_be_typed(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    ids = await fill(server)
    await dead_letters(server, "no ink")
    told: set[str] = set()
    for address in (
        "/ui/topics?sort=rate",
        "/ui/topics/orders",
        "/ui/groups/orders/billing",
        "/ui/nodes",
        "/ui/schedules",
        f"/ui/messages?topic=orders&state=scheduled&key={quote(HOSTILE)}&from=2026-11-21T10:00:00Z",
        f"/ui/messages/{ids['waits']}",
        f"/ui/dead/parcels/labels?reason={quote('a b')}&to=2026-11-22T10:00:00Z",
    ):
        told |= {one for one in commands(read(await browser.get(address))) if one.startswith("tarry ")}
    assert f"tarry show {ids['waits']}" in told
    assert "tarry topics --sort rate" in told
    assert len(told) > 8
    for one in told:
        command_line.parse_args(shlex.split(one)[1:], print_error=False, exit_on_error=False)


async def test_a_message_and_its_life(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    ids = await fill(server)
    text = " ".join(read(await browser.get(f"/ui/messages/{ids['failed']}")).text)
    for word in (
        "published",
        "claimed",
        "failed",
        "retrying",
        "2026-11-21 10:00:00.000",
        "+10 s",
        "attempt 1",
        "alert(1)",
    ):
        assert word in text, word
    waits = await browser.get(f"/ui/messages/{ids['waits']}")
    assert "Cancel…" in waits.text
    assert "Cancel…" not in (await browser.get(f"/ui/messages/{ids['acked']}")).text
    found = await browser.get("/ui/messages", params={"id": f" {ids['waits']} "})
    assert found.headers["location"] == f"/ui/messages/{ids['waits']}"
    assert (await browser.get("/ui/messages/99")).status_code == 404


async def test_find_and_its_address(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    ids = await fill(server)
    by_key = read(await browser.get("/ui/messages?topic=orders&key=order-7"))
    assert f"/ui/messages/{ids['waits']}" in links(by_key)
    assert f"/ui/messages/{ids['hostile']}" not in links(by_key)
    assert "/v1/messages?topic=orders&key=order-7&max=50" in links(by_key)
    curl = next(one for one in commands(by_key) if one.startswith("curl"))
    assert curl == "curl -s 'http://127.0.0.1:8277/v1/messages?topic=orders&key=order-7&max=50'"
    wrong = await browser.get("/ui/messages?topic=orders&key=k&from=yesterday")
    assert wrong.status_code == 400
    assert "from" in wrong.text


async def test_a_topic_alone_lists_its_messages(
    browser: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_PAGE", 4)
    ids = await fill(server)
    pages = await pages_from(browser, "/ui/messages?topic=orders")
    order = "waiting messages first (next due first), then messages in the stream (newest first)"
    assert all(order in " ".join(page.text) for page in pages)
    found = messages_on(pages)
    assert len(set(found)) == len(found) == 5
    assert found[:2] == [f"/ui/messages/{ids['waits']}", f"/ui/messages/{ids['hostile']}"]
    monkeypatch.setattr(finding, "_ROWS", 1)
    monkeypatch.setattr(finding, "_READS", 1)
    topic = await server.topic("others")
    await server.publish(topic, *[b"1"] * 40, deliver_at=NOW + 1000)
    short = read(await browser.get("/ui/messages?topic=orders"))
    assert "The next page continues from there" in " ".join(short.text)
    assert following(short) != []


async def test_times_of_a_form_are_utc(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    """As a browser sends them they have no zone; as the address has them, they are in the form again."""
    ids = await fill(server)
    address = "/ui/messages?topic=orders&state=scheduled&from=2026-11-21T10:01&to=2026-11-21T10:01:01"
    reader = read(await browser.get(address))
    assert f"/ui/messages/{ids['waits']}" in links(reader)
    assert f"/ui/messages/{ids['hostile']}" not in links(reader)
    times = {a["name"]: a["value"] for _, a in reader.elements if a.get("type") == "datetime-local"}
    assert times == {"from": "2026-11-21T10:01:00", "to": "2026-11-21T10:01:01"}
    (json_,) = [to for to in links(reader) if to.startswith("/v1/messages?")]
    assert "from=2026-11-21T10%3A01%3A00Z" in json_


async def test_what_is_wrong_is_told_on_a_page_with_its_menu(browser: httpx.AsyncClient) -> None:
    response = await browser.get("/ui/topics/nowhere")
    assert response.status_code == 404
    reader = read(response)
    assert {"/ui/topics", "/ui/groups"} <= links(reader)
    assert "There is no topic 'nowhere'" in " ".join(reader.text)


async def test_a_button_is_there_for_what_can_be_done(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await fill(server)
    here = "/ui/groups/orders/billing"
    for paused in (False, True):
        if paused:
            await press(browser, f"{here}/pause", sure="yes")
        buttons = {a.get("hx-post") for tag, a in read(await browser.get(here)).elements if tag == "button"}
        assert (f"{here}/pause" in buttons, f"{here}/resume" in buttons) == (not paused, paused)


async def test_pages_of_a_table(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    for number in range(3):
        await server.publish(topic, *[b"1"] * 20, deliver_at=NOW + 60_000 + number)
    pages = await pages_from(browser, "/ui/messages?topic=orders&state=scheduled")
    assert (len({*messages_on(pages)}), len(pages)) == (60, 2)


async def test_csv(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    await server.publish(topic, b"1", deliver_at=NOW + 60_000, key="=HYPERLINK(1)")
    response = await browser.get("/ui/messages?topic=orders&state=scheduled&csv=messages")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in response.headers["content-disposition"]
    header, row = csv.reader(io.StringIO(response.text))
    told = dict(zip(header, row, strict=True))
    assert (told["state"], told["body"], told["key"]) == ("scheduled", "1", "'=HYPERLINK(1)")
    assert (await browser.get("/ui/messages?topic=orders&state=scheduled&csv=others")).status_code == 404


async def press(browser: httpx.AsyncClient, address: str, **fields: Any) -> str:
    """What a button says, its text alone."""
    response = await browser.post(address, data=fields, headers={"HX-Request": "true"})
    assert "<html" not in response.text
    return " ".join(" ".join(read(response).text).split())


async def test_cancel_move_and_publish_again(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    ids = await fill(server)
    here = f"/ui/messages/{ids['waits']}"
    assert "will not be delivered" in await press(browser, f"{here}/cancel")
    assert server.all("intake.cancel") == []
    assert "2026-11-21T10:30:00.000Z" in await press(browser, f"{here}/move", when="30m")
    assert "2026-11-22T09:00:00.000Z" in await press(browser, f"{here}/move", when="2026-11-22T10:00:00+01:00")
    assert "Enter a duration" in await press(browser, f"{here}/move", when="")
    assert "2026-11-22T09:30:00.000Z" in await press(browser, f"{here}/move", when="2026-11-22 09:30")
    assert "delay" in await press(browser, f"{here}/move", when="soon")
    assert "with the same content to orders in 1h" in await press(browser, f"{here}/again", when="1h")
    browser.headers["Origin"] = "http://127.0.0.1:8277"
    with structlog.testing.capture_logs() as logs:
        told = await press(browser, f"{here}/again", when="1h", sure="yes")
    copy = re.search("[0-9]{15,}", told)
    assert copy is not None
    (line,) = [one for one in logs if one["event"] == "operated"]
    assert (line["operation"], line["message"]) == ("publish", copy[0])
    found = (await browser.get(f"/v1/messages/{copy[0]}")).json()
    assert (found["key"], found["body"], found["deliver_at"]) == ("order-7", {"order": 7}, "2026-11-21T11:00:00.000Z")
    assert "Cancelled" in await press(browser, f"{here}/cancel", sure="yes")
    assert (await browser.get(f"/v1/messages/{ids['waits']}")).json()["state"] == "cancelled"
    assert "cancelled before" in await press(browser, f"{here}/move", when="1h")


async def test_a_body_is_published_again_as_it_came(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    (sent,) = await server.publish(topic, b'{"n": 1.10, "big": 12345678901234567890123}', deliver_at=NOW + 60_000)
    told = await press(browser, f"/ui/messages/{sent.id}/again", sure="yes", when="1h")
    copy = re.search("[0-9]{15,}", told)
    assert copy is not None
    assert b'{"n": 1.10, "big": 12345678901234567890123}' in (await browser.get(f"/v1/messages/{copy[0]}")).content


@pytest.mark.parametrize("number", ["1e999", "9" * 5_000, "-1E-9999", "1.10"])
async def test_a_number_in_a_body_is_shown_as_it_is_written(
    browser: httpx.AsyncClient, server: SpiedServer, number: str
) -> None:
    topic = await server.topic(ladder=Ladder(()))
    group = await server.group(topic)
    (sent,) = await server.publish(topic, number.encode(), headers=b'{"body":"1"}')
    here = f"/ui/messages/{sent.id}"
    pages = [here, "/ui/messages?topic=orders&state=published"]
    claim = await server.claim(group)
    await server.settle(claim, "fail", sent.id)
    pages.append(f"/ui/dead/orders/{group.name}")
    put = await browser.put(
        "/v1/schedules/s", content=b'{"topic":"orders","every":"1h","body":' + number.encode() + b"}"
    )
    if put.status_code == 201:
        pages += ["/ui/schedules", "/ui/schedules/s"]
    for page in pages:
        answer = await browser.get(page)
        assert answer.status_code == 200, page
        assert page == "/ui/schedules" or number[:60] in answer.text, page
    assert "same content" in await press(browser, f"{here}/again")


async def dead_letters(server: SpiedServer, *reasons: str, topic: str = "parcels") -> list[int]:
    of = await server.topic(topic, ladder=Ladder(()))
    group = await server.group(of, "labels")
    await server.publish(of, *[b"%d" % n for n in range(len(reasons))], key="k")
    claim = await server.claim(group, size=len(reasons))
    for delivered, reason in zip(claim.messages, reasons, strict=True):
        await server.settle(claim, "fail", delivered.id, reason=reason)
    return [delivered.id for delivered in claim.messages]


async def left(browser: httpx.AsyncClient) -> int:
    return int((await browser.get("/v1/topics/parcels/groups/labels")).json()["dead_letters"])


async def test_redrive_and_purge(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    ids = await dead_letters(server, "no ink", "no ink", "no paper", HOSTILE)
    here = "/ui/dead/parcels/labels"
    assert here in links(read(await browser.get("/ui/dead")))
    page = read(await browser.get(here))
    assert "no ink" in page.text
    assert not [one for one in page.elements if one[0] == "img"]
    assert "Tick a dead letter first" in await press(browser, f"{here}/redrive", scope="ticked")
    asked = await press(browser, f"{here}/redrive", scope="ticked", id=[str(ids[0])])
    assert "1 dead letter" in asked
    assert await left(browser) == 4
    assert "1 dead letter redriven" in await press(
        browser, f"{here}/redrive", scope="ticked", id=[str(ids[0])], sure="yes"
    )
    assert await left(browser) == 3
    fits = await press(browser, f"{here}/purge", scope="all", reason="ink")
    assert "1 dead letter would be deleted" in fits
    assert "1 dead letter purged" in await press(browser, f"{here}/purge", scope="all", reason="ink", sure="yes")
    assert await left(browser) == 2
    assert "No dead letter" in await press(browser, f"{here}/purge", scope="all", reason="nobody")
    assert "2 dead letters purged" in await press(browser, f"{here}/purge", scope="all", sure="yes")
    assert await left(browser) == 0


async def test_redrive_and_purge_by_what_they_are(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    """By reason, key, tag and time, as many as there are: the count first, and then those that were counted."""
    of = await server.topic("parcels", ladder=Ladder(()))
    group = await server.group(of, "labels")
    for number, reason in enumerate(("timeout after 3 s", "timeout after 4 s", "timeout", "no ink", "no ink")):
        await server.publish(of, b"%d" % number, key=f"parcel-{number % 2}", tag="red" if number == 3 else "blue")
        claim = await server.claim(group)
        await server.settle(claim, "fail", claim.messages[0].id, reason=reason)
        server.ms += 1000
    here = "/ui/dead/parcels/labels"
    page = read(await browser.get(here))
    assert ("option", {"value": "timeout after 3 s"}) in page.elements
    for fields, many in (
        ({"reason": "timeout"}, 1),
        ({"reason": "timeout*"}, 3),
        ({"reason": "timeout*", "key": "parcel-1"}, 1),
        ({"tag": "red"}, 1),
        ({"from": "2026-11-21T10:00:01", "to": "2026-11-21T10:00:03"}, 2),
    ):
        told = await press(browser, f"{here}/redrive", scope="of", **fields)
        assert f"{many} dead letter{'s' if many > 1 else ''} would go back" in told, fields
    assert await left(browser) == 5
    assert "no dead letter matches" in await press(browser, f"{here}/purge", scope="of", reason="Timeout")
    assert "Enter a reason" in await press(browser, f"{here}/purge", scope="of", reason="", key="")
    asked = await browser.post(
        f"{here}/purge", data={"scope": "of", "reason": "no ink", "to": ""}, headers={"HX-Request": "true"}
    )
    assert "2 dead letters would be deleted" in asked.text
    hidden = {a["name"] or "": a["value"] or "" for tag, a in read(asked).elements if tag == "input"}
    assert hidden["to"] == "2026-11-21T10:00:05.001Z", "what dies before the second word was not counted"
    await server.publish(of, b"9")
    server.ms += 1000
    claim = await server.claim(group)
    await server.settle(claim, "fail", claim.messages[0].id, reason="no ink")
    assert "2 dead letters purged" in await press(browser, f"{here}/purge", **hidden)
    assert await left(browser) == 4


async def test_a_dry_run_hands_on_what_was_chosen(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    ids = await dead_letters(server, "a", "b", "c")
    response = await browser.post(
        "/ui/dead/parcels/labels/purge",
        data={"scope": "ticked", "id": [str(ids[0]), str(ids[2])]},
        headers={"HX-Request": "true"},
    )
    hidden = [(a["name"], a["value"]) for tag, a in read(response).elements if tag == "input"]
    assert sorted(hidden) == sorted([("sure", "yes"), ("scope", "ticked"), ("id", str(ids[0])), ("id", str(ids[2]))])


async def test_a_schedule(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.topic()
    await put_schedule(browser)
    here = "/ui/schedules/daily"
    assert here in links(read(await browser.get("/ui/schedules")))
    text = " ".join(read(await browser.get(here)).text)
    assert "2026-11-22 09:00:00.000" in text
    assert "0 9 * * * UTC" in text
    assert "Pause daily?" in await press(browser, f"{here}/pause")
    assert "is paused" in await press(browser, f"{here}/pause", sure="yes")
    assert (await browser.get("/v1/schedules/daily")).json()["paused"] is True
    assert "is resumed" in await press(browser, f"{here}/resume")
    assert "Send its message now?" in await press(browser, f"{here}/run")
    assert (await browser.get("/v1/schedules/daily/fires")).json()["fires"] == []
    assert "Sent:" in await press(browser, f"{here}/run", sure="yes")
    assert "run" in " ".join(read(await browser.get(here)).text)
    stretch = {"from": "2026-11-18T00:00:00Z", "to": "2026-11-21T00:00:00Z"}
    assert "3 fire times are in this range" in await press(browser, f"{here}/backfill", **stretch)
    assert "3 messages were sent" in await press(browser, f"{here}/backfill", **stretch, sure="yes")
    assert "There is no fire time" in await press(
        browser, f"{here}/backfill", **{"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T11:00:00Z"}
    )
    assert "RFC 3339" in await press(browser, f"{here}/backfill", **{"from": "yesterday", "to": "today"})


async def test_messages_that_a_guard_holds_are_told(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "unpaid" not in (await browser.get("/ui")).text
    held = [GuardState("unpaid", None, 3, "no answer in time"), GuardState("calm", None, 1, None)]
    monkeypatch.setattr(Guards, "states", lambda _: held)
    text = " ".join(read(await browser.get("/ui")).text)
    assert "guard unpaid no answer in time (3 waiting)" in " ".join(text.split())
    assert "1 check fails" in text
    assert "calm" not in text


async def test_what_a_schedule_has_missed(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.topic()
    spec = {"topic": "orders", "every": "1h", "body": 1, "misfire": {"catch_up": "2h"}}
    assert (await browser.put("/v1/schedules/hourly", json=spec)).status_code == 201
    server.ms += 10 * 3_600_000 + 1
    for _ in range(3):
        (row,) = await server.node.store.read(schedules.page, "", 10)
        await server.node.promotion.promote([row.next_id or 0])
        server.ms += 1000  # the next turn is within a second
    fires = (await browser.get("/v1/schedules/hourly/fires")).json()["fires"]
    assert [one["what"] for one in fires] == ["fired", "fired", "missed"]
    for place in ("", f"?cursor={NOW + 4 * 3_600_000}"):
        page = await browser.get(f"/ui/schedules/hourly{place}")
        assert page.status_code == 200
        text = " ".join(read(page).text)
        assert "Missed until" in text
        assert text.count(" missed ") >= 1
    past = {"from": fires[-1]["fire_at"], "to": fires[-1]["missed_until"]}
    assert "would be sent" in await press(browser, "/ui/schedules/hourly/backfill", **past)
    await press(browser, "/ui/schedules/hourly/backfill", **past, sure="yes")
    assert "All their messages have been sent" in await press(browser, "/ui/schedules/hourly/backfill", **past)


async def test_the_timers_of_a_topic(
    browser: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.topic()
    assert "tarry timer set orders" in (await browser.get("/ui/topics/orders/timers")).text
    monkeypatch.setattr(timers, "_PAGE", 2)
    made: dict[str, Any] = {}
    for key in ("cart-8", "cart-7", HOSTILE):
        put = await browser.put(f"/v1/topics/orders/timers/{quote(key, safe='')}", json={"body": 1, "delay": "30m"})
        made[key] = put.json()
    assert "/ui/topics/orders/timers" in links(read(await browser.get("/ui/topics/orders")))
    pages = await pages_from(browser, "/ui/topics/orders/timers")
    for page in pages:
        assert not [one for one in page.elements if one[0] == "img"]
        assert "2026-11-21 10:30:00.000" in page.text
    assert {*messages_on(pages)} == {f"/ui/messages/{one['id']}" for one in made.values()}
    last = read(await browser.get("/ui/topics/orders/timers?cursor=cart-7"))
    (to,) = [one for one in links(last) if one.startswith("/ui/schedules?topic=orders&key=")]
    assert made["cart-8"]["id"] in (await browser.get(to)).text
    listed = await browser.get("/ui/schedules?topic=orders")
    assert (listed.status_code, listed.headers["location"]) == (303, "/ui/topics/orders/timers")


async def test_a_timer_by_its_key(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.topic()
    put = await browser.put("/v1/topics/orders/timers/cart-7", json={"body": 1, "delay": "30m"})
    page = await browser.get("/ui/schedules?topic=orders&key=cart-7")
    assert f"/ui/messages/{put.json()['id']}" in links(read(page))
    assert "tarry timer set" in (await browser.get("/ui/schedules?topic=orders&key=cart-8")).text


async def test_a_group_is_paused_and_resumed(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await fill(server)
    here = "/ui/groups/orders/billing"
    assert here in links(read(await browser.get("/ui/groups")))
    assert "Pause billing?" in await press(browser, f"{here}/pause")
    assert "paused" in await press(browser, f"{here}/pause", sure="yes")
    assert 'data-state="paused"' in (await browser.get("/ui/groups")).text
    await press(browser, f"{here}/resume")
    assert 'data-state="paused"' not in (await browser.get("/ui/groups")).text
    text = " ".join(read(await browser.get(here)).text)
    for word in ("The ladder", "after 10 s", "dead letters"):
        assert word in text


def facts(reader: HTMLPage) -> str:
    return " ".join(" ".join(reader.text).split())


async def test_settings_stand_beside_the_servers(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.group(await server.topic())
    text = facts(read(await browser.get("/ui/topics/orders")))
    for told in (
        "Retention 7 d · the server's",
        "Ladder 10 s, 30 s, 1 min",
        "Max rate, per second no limit · unless set",
    ):
        assert told in text
    await browser.put("/v1/topics/orders", json={"retention": "1h", "ladder": ["5s"], "max_rate": 7})
    text = facts(read(await browser.get("/ui/topics/orders")))
    assert "Retention 1 h · its own; the server's is 7 d" in text
    assert "Ladder 5 s · its own; the server's is 10 s, 30 s, 1 min" in text
    assert "Max rate, per second 7 · its own; else no limit" in text
    assert "Ladder 5 s · the topic's" in facts(read(await browser.get("/ui/groups/orders/billing")))
    await browser.put("/v1/topics/orders/groups/billing", json={"ladder": []})
    text = facts(read(await browser.get("/ui/groups/orders/billing")))
    assert "Ladder none: the first failure is the last · its own; the topic's is 5 s" in text


async def test_a_topic_is_changed_by_what_was_typed(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.topic(queues=2)
    here = "/ui/topics/orders/put"
    was = {"was.queues": "2", "was.sequencer": "store", "queues": "2", "sequencer": "store"}
    told = await press(browser, here, **was, retention="30d", max_rate="7")
    assert "Saved." in told
    assert "Retention 30 d · its own; the server's is 7 d" in told
    assert "Nothing was changed." in await press(browser, here, **was)
    await browser.put("/v1/topics/orders", json={"max_pending": 5})
    told = await press(browser, here, **{**was, "was.max_rate": "7", "max_rate": ""})
    topic = (await browser.get("/v1/topics/orders")).json()
    assert [topic[name] for name in ("max_rate", "max_pending", "retention")] == [None, 5, 30 * 86_400_000]
    page = await browser.post(here, data={**was, "queues": "1", "ladder": "1s, 4000d"}, headers={"HX-Request": "true"})
    reader = read(page)
    wrong = [attributes["name"] for _, attributes in reader.elements if "aria-invalid" in attributes]
    assert wrong == ["ladder"]
    assert "rung 2: it lies between 0s and 3650d" in facts(reader)
    assert ("details", {"class": "change", "open": None}) in reader.elements, "what is wrong is in sight"
    told = await press(browser, here, **{**was, "queues": "1"})
    assert "topic 'orders' has 2 queues, and queues are never taken away" in told
    assert (await browser.get("/v1/topics/orders")).json()["ladder"] is None


async def test_what_somebody_typed_is_text(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.topic()
    for here, name in (("/ui/topics/orders/put", "retention"), ("/ui/new/topic", "name"), ("/ui/new/group", "topic")):
        response = await browser.post(here, data={name: HOSTILE, f"was.{name}": ""}, headers={"HX-Request": "true"})
        assert response.status_code == 200, here
        assert not [tag for tag, _ in read(response).elements if tag in ("script", "img")], here


async def test_a_group_is_changed_by_what_was_typed(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.group(await server.topic())
    here = "/ui/groups/orders/billing/put"
    told = await press(browser, here, ladder="none", concurrency="5")
    assert "Concurrency 5 · its own; else no limit" in told
    group = (await browser.get("/v1/topics/orders/groups/billing")).json()
    assert (group["ladder"], group["ladder_of"], group["concurrency"]) == ([], "group", 5)
    assert "a whole number" in await press(browser, here, **{"was.concurrency": "5", "concurrency": "many"})
    assert "At the ladder's end" in await press(browser, here)
    assert "block: its key waits" not in await press(browser, here), "of ordered topics only"


async def test_a_topic_and_a_group_are_made(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    async def made(what: str, **fields: str) -> httpx.Response:
        return await browser.post(f"/ui/new/{what}", data=fields, headers={"HX-Request": "true"})

    done = await made("topic", name="orders", queues="4", kind="ordered")
    assert done.headers["hx-redirect"] == "/ui/topics/orders"
    topic = (await browser.get("/v1/topics/orders")).json()
    assert (topic["queues"], topic["ordered"], topic["kind"]) == (4, True, "cluster")
    again = await made("topic", name="orders", queues="5", kind="cluster")
    assert "orders is there already." in again.text
    for fields, told in (
        ({"name": ""}, "Say its name."),
        ({"name": "a b"}, "a name is 1 to 249 letters"),
        ({"name": "more", "queues": "0"}, "it must be a whole number from 1 to 1024"),
    ):
        response = await made("topic", kind="cluster", **fields)
        assert told in response.text
        assert [a["id"] for _, a in read(response).elements if "aria-invalid" in a] == [
            "new-topic-queues" if "queues" in fields else "new-topic-name"
        ]
    assert (await browser.get("/v1/topics/more")).status_code == 404
    done = await made("group", topic="orders", name="billing", **{"from": "latest"})
    assert done.headers["hx-redirect"] == "/ui/groups/orders/billing"
    assert "block: its key waits" in (await browser.get("/ui/groups/orders/billing")).text
    assert "billing is there already." in (await made("group", topic="orders", name="billing")).text
    assert "there is no topic" in (await made("group", topic="gone", name="billing", **{"from": "latest"})).text
    assert (await browser.get("/v1/topics/gone")).status_code == 404


async def pages_from(browser: httpx.AsyncClient, address: str) -> list[HTMLPage]:
    """The page of this address, and those that follow it."""
    path, pages = address.partition("?")[0], [read(await browser.get(address))]
    while following(pages[-1]):
        (more,) = following(pages[-1])
        pages.append(read(await browser.get(f"{path}{more}")))
    return pages


def messages_on(pages: list[HTMLPage]) -> list[str]:
    """The messages that they lead to, in order."""
    hrefs = [attributes.get("href") or "" for page in pages for tag, attributes in page.elements if tag == "a"]
    return [href for href in hrefs if re.fullmatch("/ui/messages/[0-9]+", href)]


def rows(reader: HTMLPage) -> list[str]:
    """The ids of a table's rows, which tell what they are of."""
    return [attributes["id"] or "" for tag, attributes in reader.elements if tag == "tr" and "id" in attributes]


def following(reader: HTMLPage) -> list[str | None]:
    """Where the next page is, if there is one."""
    return [attributes["href"] for _, attributes in reader.elements if attributes.get("rel") == "next"]


async def test_groups_are_sorted_as_the_address_says(
    browser: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many topics there are, the group with most to do is on the first page."""
    monkeypatch.setattr(groups, "_PAGE", 2)
    for number, name in enumerate(("a", "b", "c", "d")):
        topic = await server.topic(name)
        await server.group(topic, "mail")
        await server.publish(topic, *[b"1"] * (1 + number))
    by_backlog = [rows(page) for page in await pages_from(browser, "/ui/groups")]
    assert by_backlog == [["groups-d-mail", "groups-c-mail"], ["groups-b-mail", "groups-a-mail"]]
    by_name, rest = await pages_from(browser, "/ui/groups?sort=name")
    assert rows(by_name) == ["groups-a-mail", "groups-b-mail"]
    assert ("a", {"href": "?sort=name", "aria-current": "true"}) in by_name.elements
    assert rows(rest) == ["groups-c-mail", "groups-d-mail"], "the next page keeps the order"
    assert "tarry groups --sort name" in " ".join(by_name.text)
    assert (await browser.get("/ui/groups?sort=age")).status_code == 400


@pytest.mark.slow
async def test_groups_with_most_dead_letters_come_first(
    browser: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_PAGE", 1)
    await server.group(await server.topic("idle"), "mail")
    await dead_letters(server, "no ink")
    await dead_letters(server, "no ink", "no paper", "no stamp", topic="letters")
    pages = await pages_from(browser, "/ui/dead")
    assert [rows(page) for page in pages] == [["dead-letters-labels"], ["dead-parcels-labels"], []]


async def test_an_action_is_no_page(browser: httpx.AsyncClient, server: SpiedServer) -> None:
    await fill(server)
    assert (await browser.get("/ui/groups/orders/billing/pause")).status_code == 405
    assert (await browser.post("/ui/groups/orders/billing/remove")).status_code == 404
