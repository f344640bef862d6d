"""A group that is pushed, on a real node, to a real endpoint: what is acked, what comes again, and what counts."""

import re
import threading
import time
from base64 import b64encode
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import trio

from support.office import SECRET, Office, open_office
from support.receiver import OK, Received, Receiver, head, receiver
from support.waiting import until
from tarry.service.push.signing import read_secret, signatures
from tarry.store.groups.locked_rows import ClaimRow
from tarry.store.looking import dead_letters, tracing
from tarry.store.ports import Transaction
from tarry.store.records import ClaimRequest
from tarry.wheel.ladder import Ladder

HOUR = 3_600_000
SECOND = "whsec_" + b64encode(b"2" * 32).decode()


def held_back(office: Office, seconds: float = 10) -> threading.Event:
    """Each post is answered when this is set, or so much later."""
    gate = threading.Event()

    def answer(_: Received) -> bytes:
        gate.wait(seconds)
        return OK

    office.there.answer = answer
    return gate


async def test_sent_and_acked(office: Office) -> None:
    await office.push(secrets=(SECRET, SECOND))
    (id_,) = await office.publish(
        b'{"order": 7}', key="order/7 \u00fc\r\n", tag="new", headers=b'{"Trace": "a\\r\\nb", "no name": "x", "n": "1"}'
    )
    await office.until(lambda state: state.acked == 1)
    (came,) = office.there.received
    headers = came.headers
    assert (came.target, came.body, headers["content-type"]) == ("/in", b'{"order": 7}', "application/json")
    assert (came.id, headers["tarry-topic"], headers["tarry-group"], headers["tarry-attempt"]) == (
        str(id_),
        "orders",
        "billing",
        "1",
    )
    assert (headers["tarry-key"], headers["tarry-tag"]) == ("order/7 %C3%BC%0D%0A", "new")
    assert (headers["tarry-header-trace"], headers["tarry-header-n"]) == ("a%0D%0Ab", "1")
    assert not [name for name in headers if "no" in name and "name" in name]
    keys = [read_secret(SECRET), read_secret(SECOND)]
    at = int(headers["webhook-timestamp"])
    assert abs(at * 1000 - office.node.clock.now()) < 60_000
    assert headers["webhook-signature"] == signatures(keys, came.id, at, came.body)
    assert (office.metric("tarry_push_sent_total"), office.metric("tarry_push_failed_total")) == (1, 0)


async def test_bytes_keep_their_type(office: Office) -> None:
    await office.push()
    await office.publish(b"\0\xff", content_type="image/png")
    (came,) = await office.came(1)
    assert (came.body, came.headers["content-type"]) == (b"\0\xff", "image/png")


async def test_an_erased_one_says_so(office: Office) -> None:
    await office.begin()
    (id_,) = await office.publish(b'"Ada"', headers=b'{"name": "Ada"}')
    assert not isinstance(await office.node.operations.erase(id_), str)
    await office.push()
    (came,) = await office.came(1)
    assert (came.body, came.headers["content-type"]) == (b"", "application/octet-stream")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[0-9:.]+Z", came.headers["tarry-erased-at"])
    assert "Ada" not in str(came.headers)


async def test_a_refused_message_goes_to_its_next_rung(office: Office) -> None:
    office.there.answer = lambda one: head(400) if one.headers["tarry-attempt"] == "1" else OK
    await office.push()
    await office.publish(b"1")
    state = await office.until(lambda state: state.acked == 1)
    assert (state.retried, [one.headers["tarry-attempt"] for one in office.there.received]) == (1, ["1", "2"])
    assert {one.id for one in office.there.received} == {office.there.received[0].id}, "the id stays"


async def test_after_the_last_rung_it_is_dead(office: Office) -> None:
    office.group, _ = await office.node.catalogue.put_group(office.topic, "billing", Ladder(()))
    office.there.answer = lambda _: head(302, "Location: /elsewhere")
    await office.push()
    await office.publish(b"1")
    await office.until(lambda state: state.dead == 1)
    (reason,) = await dead_reasons(office)
    assert reason == "the endpoint answered 302: redirects are not followed; set the url to where it leads"


async def dead_reasons(office: Office) -> list[str]:
    page = await office.node.store.read(dead_letters.find, office.group, dead_letters.DeadSearch(), 0, 100)
    return [attempt["reason"] for letter in page.letters for attempt in msgspec.json.decode(letter.history)]


async def test_gone_switches_it_off(office: Office) -> None:
    office.there.answer = lambda _: head(410)
    await office.push(most=1)
    await office.publish(b"1", b"2", b"3")
    row = await office.until_row(lambda row: row.off_at is not None)
    assert (row.because, row.broken_at) == ("the endpoint answered 410", None)
    state = await office.until(lambda state: state.claimed == 0)
    assert (state.acked, state.dead) == (0, 0), "nothing is lost"
    assert len(office.there.received) == 1
    office.there.answer = lambda _: OK
    await office.push()
    await office.until(lambda state: state.acked == 3)
    assert (await office.row()).off_at is None
    assert Counter(one.headers["tarry-attempt"] for one in office.there.received) == {"1": 4}


@pytest.mark.parametrize(
    ("status", "asked"), [(429, "1"), (503, "1"), (429, "0"), (503, "Sat, 21 Nov 2020 10:00:00 GMT")]
)
async def test_left_alone_for_as_long_as_it_asks(office: Office, status: int, asked: str) -> None:
    """Or for a second, where it asks for nothing, or for what is over: not counted, it would go to and fro."""
    times: list[float] = []

    def answer(_: Received) -> bytes:
        times.append(time.monotonic())
        return head(status, f"Retry-After: {asked}") if len(times) == 1 else OK

    office.there.answer = answer
    await office.push(most=1)
    await office.publish(b"1", b"2")
    await office.until(lambda state: state.acked == 2)
    assert {one.headers["tarry-attempt"] for one in office.there.received} == {"1"}, "it is not counted"
    assert times[1] - times[0] >= 0.99, "nor is another posted meanwhile"


@pytest.mark.usefixtures("quick")
async def test_a_broken_endpoint(office: Office) -> None:
    """It opens at the fifth message; from then on nothing counts, and one is tried now and then."""
    office.group, _ = await office.node.catalogue.put_group(office.topic, "billing", Ladder((HOUR,)))
    office.there.answer = lambda _: head(500)
    await office.push(most=1)
    await office.publish(*[b"1"] * 8)
    row = await office.until_row(lambda row: row.broken_at is not None)
    assert row.because == "the endpoint answered 500"
    seen = len(office.there.received)
    await office.came(seen + 6)
    assert office.metric("tarry_push_broken") == 1
    assert {one.headers["tarry-attempt"] for one in office.there.received} == {"1"}
    office.there.answer = lambda _: OK
    state = await office.until(lambda state: state.acked == 4)
    assert (sum(state.retries), state.dead) == (4, 0), "those before it opened are on their rung, the others lost none"
    assert {one.headers["tarry-attempt"] for one in office.there.received} == {"1"}
    assert (await office.until_row(lambda row: row.broken_at is None)).because is None
    assert office.metric("tarry_push_broken") == 0


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("wrong", ["closes", "garbage", "hangs", "nobody"])
async def test_what_breaks_it(office: Office, wrong: str) -> None:
    answers: dict[str, bytes | None] = {"closes": b"", "garbage": b"\0\0\0\r\n\r\n", "hangs": None}
    if wrong == "nobody":
        office.there.server_close()
    else:
        office.there.answer = lambda _: answers[wrong]
    await office.push(timeout=200)
    await office.publish(*[b"1"] * 8)
    row = await office.until_row(lambda row: row.broken_at is not None)
    assert row.because is not None
    assert "/in" not in row.because, "a path may be a secret"


async def test_connections_are_used_again(office: Office) -> None:
    office.there.keeps = True
    await office.push(most=3)
    await office.publish(*[b"1"] * 30)
    await office.until(lambda state: state.acked == 30)
    assert (len(office.there.received), office.there.connections) == (30, 3)


async def test_so_many_at_once_and_no_more(office: Office) -> None:
    await office.push(most=3)
    gate = held_back(office)
    await office.publish(*[b"1"] * 20)
    await office.came(3)
    assert (await office.state()).claimed == 3, "the others stay for who else claims"
    gate.set()
    await office.until(lambda state: state.acked == 20)
    assert office.there.most_at_once == 3


@pytest.mark.slow
async def test_the_lease_goes_on_while_it_is_under_way(office: Office) -> None:
    """The endpoint takes twice as long as a lease is."""
    held_back(office, seconds=4)
    await office.push(timeout=20_000)
    await office.publish(b"1")
    state = await office.until(lambda state: state.acked == 1)
    assert (len(office.there.received), state.retried) == (1, 0)


async def test_order_is_kept(tmp_path: Path, there: Receiver) -> None:
    """Of each key one after another, also where one fails at first."""
    failed: set[str] = set()
    gate = threading.Event()

    def answer(one: Received) -> bytes:
        if one.body in (b"2", b"7") and one.id not in failed:
            failed.add(one.id)
            return head(400)
        gate.wait(0.05 if int(one.body) < 2 else 0)  # the first of each takes longer than those behind it
        return OK

    there.answer = answer
    async with open_office(tmp_path / "ordered.db", there, ordered=True) as office:
        for number in range(10):
            await office.publish(b"%d" % number, ordering_key=f"account {number % 2}")
        await office.push()  # so that all are in one claim
        await office.until(lambda state: state.acked == 10)
    for key in (0, 1):
        of_key = [int(one.body) for one in there.received if one.headers["tarry-ordering-key"] == f"account {key}"]
        assert list(dict.fromkeys(of_key)) == sorted(set(of_key)), of_key
        assert of_key == sorted(of_key)
    assert len(there.received) == 12


async def test_removed_it_posts_no_more(office: Office) -> None:
    await office.push()
    await office.deliver(b"1")
    await office.node.pushers.remove(office.group)
    await office.publish(b"2")
    await until(lambda: all(pusher.over for pusher in office.node.pushers._ending))
    assert len(office.there.received) == 1
    assert (await office.state()).acked == 1


async def test_of_a_group_that_is_gone_nothing_is_claimed(office: Office) -> None:
    """Though its row is there: somebody has removed the group by SQL of their own."""
    await office.push()
    pusher = office.node.pushers._running[office.group.id]
    await office.node.store.write(lambda tx: tx.execute("consumer_group.remove", [office.group.id]))
    await office.node.directory.refresh()
    await office.node.pushers.look()
    assert office.node.pushers._running == {}
    await until(lambda: pusher.over)


async def test_a_paused_group_is_not_pushed(office: Office) -> None:
    """It goes on when the group does."""
    await office.push()
    await office.deliver(b"1")
    await office.node.catalogue.pause_group(office.group, paused=True)
    await office.publish(b"2")
    await trio.sleep(0.3)
    assert (await office.state()).claimed == 0
    assert len(office.there.received) == 1
    await office.node.catalogue.pause_group(office.group, paused=False)
    await office.until(lambda state: state.acked == 2)


async def test_what_is_paused_elsewhere_is_asked_for_with_each_claim(office: Office) -> None:
    """As by who claims over HTTP; else a server that has always something to post would hear of it late."""
    asked_at = office.node.pauses._asked_at
    await office.push()
    await office.deliver(b"1")
    assert office.node.pauses._asked_at > asked_at


async def test_another_url_takes_effect_at_once(office: Office) -> None:
    office.there.answer = lambda _: head(503)
    await office.push(most=1)
    with receiver() as other:
        old, office.there = office.there, other
        await office.push()
        await office.deliver(b"1")
        assert len(other.received) == 1
        assert old.received == []


async def test_at_the_end_what_is_under_way_is_given_back(office: Office) -> None:
    office.there.answer = lambda _: None
    await office.push(timeout=60_000)
    (id_,) = await office.publish(b"1")
    await office.came(1)
    office.node.stop()
    await until(lambda: office.node.idle)
    assert (await office.state()).claimed == 0
    found = await office.node.store.read(tracing.find_message, id_)
    assert found is not None
    assert [event.attempt for event in found.life if event.what in ("claimed", "suspended")] == [1, 1], found.life


async def test_at_the_end_what_is_answered_soon_is_acked(office: Office) -> None:
    gate = held_back(office)
    await office.push()
    await office.publish(b"1")
    await office.came(1)
    office.node.stop()
    gate.set()
    await until(lambda: office.node.idle)
    assert (await office.state()).acked == 1


async def test_what_was_lost_before_is_told_of_before_it_is_posted(office: Office) -> None:
    """So that it counts if the server dies of it; any other is told of while it is on its way."""
    gate, seen = held_back(office), list[bool]()

    async def unbegun() -> set[bool]:
        rows = await office.node.store.read(claims_of, office.group.id)
        return {row.unbegun(place) for row in rows for place in range(row.size)}

    await office.publish(b"1")
    await office.node.groups.claim(office.group, ClaimRequest("gone", 1, HOUR, tells=True), 0)
    await office.node.liveness.deregister("gone")
    await office.push()
    await office.came(1)
    seen.append(await unbegun() == {False})
    await office.publish(b"2")
    await office.came(2)
    seen.append(await unbegun() == {False, True})
    with trio.fail_after(10):
        while await unbegun() != {False}:  # told with the renewal of the lease
            await trio.sleep(0.01)
    gate.set()
    state = await office.until(lambda state: state.acked == 2)
    assert (seen, state.dead) == ([True, True], 0)
    assert [one.headers["tarry-attempt"] for one in office.there.received] == ["1", "1"]


async def claims_of(tx: Transaction, group_id: int) -> list[ClaimRow]:
    return await tx.fetch("claim.of_group", ClaimRow, group_id)
