"""What a real store wrote is clean, whatever was done to it; and any one fault in it is found.

A fault is planted into a copy of a real history, each copy a topic of its own, so that one audit looks for them all.
"""

import random
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from functools import cache
from typing import Any, Literal

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from support.bare_tables import Book, look_at, read_book
from support.literal_tables import moment
from support.oracle import Oracle, choose
from support.still import StillBackend
from support.stores import START
from tarry.pipeline.audit import balances
from tarry.pipeline.audit.evidence import Scope
from tarry.pipeline.audit.fates import hours
from tarry.pipeline.audit.findings import KINDS
from tarry.pipeline.audit.job import Audit
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.groups import holdings
from tarry.store.ids import SHARDS
from tarry.store.operating.redriving import Letters
from tarry.store.records import Claim, ClaimRequest, Draft, Publication, Settlement
from tarry.store.sqlite.connection import drive
from tarry.store.store import Store
from tarry.store.stream.positions import Position
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

DELAYS = (-1000, 0, 1, 500, 5000, 60_000, 36_000_000)
SCOPE = Scope(until=moment(START + 10**12))


async def live(oracle: Oracle, dice: random.Random, steps: int, *, operators: bool) -> None:
    """A random history: publishes, promotions, claims, acks, failures, lost leases; with operators, seeks and such."""
    for _ in range(steps):
        hand = dice.choice(oracle.hands)
        oracle.now += dice.choice((0, 499, 1000, 10_000, 30_000, 60_000))
        await oracle.promote([*oracle.messages, *(~id_ for h in oracle.hands for id_ in h.retries)])
        match dice.randrange(10):
            case 0 | 1:
                await oracle.publish([dice.choice(DELAYS) for _ in range(dice.randrange(1, 6))], dice.randrange(2))
            case 2 if oracle.messages and dice.random() < 0.3:
                moved = choose(list(oracle.messages), dice.randrange(1000))
                await oracle.reschedule([(moved, oracle.now + dice.choice(DELAYS))])
            case 2 if oracle.messages:
                await oracle.cancel([choose(list(oracle.messages), dice.randrange(1000))])
            case 3 if operators and dice.random() < 0.5:
                await oracle.seek(hand, dice.randrange(2), dice.randrange(20))
            case 3 if operators:
                begin = dice.randrange(20)
                await oracle.replay(hand, dice.randrange(2), begin, begin + dice.randrange(5))
            case 4 if operators:
                await oracle.redrive(hand, [id_ for id_ in hand.dead if dice.random() < 0.5], purge=dice.random() < 0.2)
            case 5:
                await oracle.end_leases(hand)
            case _:
                await oracle.claim(hand, [dice.randrange(1, 6)], dice.choice((1000, 60_000)))
        for held in [held for held in hand.held[-4:] if not held.ended]:
            verb: Literal["ack", "fail"] = dice.choice(["ack", "fail", "fail"])
            places = tuple(place for place in range(held.claim.size) if dice.random() < 0.7)
            await oracle.settle(hand, [(held, Settlement(held.claim.key, verb, places, count=dice.random() < 0.8))])
    await oracle.publish([DELAYS[-1]])  # something waits in the end, whatever the dice say


def history(seed: int, *, steps: int, operators: bool) -> Book:
    async def write(store: Store) -> None:
        await live(await Oracle.begin(store), random.Random(seed), steps, operators=operators)

    return written(write)


def written(write: Callable[[Store], Coroutine[Any, Any, None]]) -> Book:
    """What is in the tables when it is done."""
    backend = StillBackend()
    drive(write(Store(backend)))
    book = read_book(lambda sql: backend._connection.execute(sql).fetchall())
    backend.close()
    return book


async def rough(store: Store, dice: random.Random, steps: int, *, ordered: bool) -> None:
    """Claims by tags, ordering keys, messages that expire, seeks and redrives, with nobody who watches."""
    now = START
    topic = await store.write(
        catalogue.add_topic, TopicDraft("orders", ordered=ordered, ladder=Ladder((1000, 5000))), now
    )
    group = await store.add_group(topic, "billing", now)
    held: list[Claim] = []
    for _ in range(steps):
        now += dice.choice((0, 500, 1000, 5000, 20_000))
        due = [~id_ for shard in range(SHARDS) for id_ in await store.read(timers.due_retries, shard, 0, now + 1, 1000)]
        await store.promote(due, now)
        over = [Settlement(key, "end") for key, _ in await store.read(holdings.over, now, 100)]
        await store.turn(group, over, [], now)
        match dice.randrange(8):
            case 0 | 1:
                for _ in range(dice.randrange(1, 6)):
                    key, tag = dice.choice("abc"), None if ordered else dice.choice(("red", "blue", None))
                    left = dice.choice((None, None, 500, 10_000, 60_000))
                    ends = None if left is None else now + left
                    draft = Draft(
                        topic=topic, queue=topic.queues[0], body=b"{}", ordering_key=key, tag=tag, expires_at=ends
                    )
                    await store.publish([Publication((draft,))], now)
            case 2 if dice.random() < 0.5:
                await store.seek(group, topic.queues, Position("offset", dice.randrange(30)), now)
            case 3:
                await store.redrive(group, Letters(), dice.randrange(1, 4), now)
            case _:
                tags = None if ordered or dice.random() < 0.5 else frozenset({dice.choice(("red", "blue"))})
                request = ClaimRequest("ann", dice.randrange(1, 7), dice.choice((1000, 60_000)), tags)
                turn = await store.turn(group, [], [request], now, ["ann"])
                held += turn.ranges
        for claim in held[-3:]:
            verb: Literal["ack", "fail"] = dice.choice(["ack", "fail"])
            places = tuple(place for place in claim.places.values() if dice.random() < 0.5)
            count = dice.random() < 0.8
            await store.turn(group, [Settlement(claim.key, verb, places, "no", None, count)] if places else [], [], now)


@cache
def rough_history(seed: int, *, ordered: bool) -> Book:
    return written(lambda store: rough(store, random.Random(seed), 150, ordered=ordered))


def as_topic(book: Book, topic: str, number: int) -> Book:
    """A copy of it under the name of another topic, with ids of its own."""
    shifts = {"topic_id": 1000, "group_id": 1000, "queue_id": 1000, "message_queue_id": 1000, "id": 10**16}
    twin: Book = {name: [row | {"topic": topic} for row in rows] for name, rows in book.items()}
    for row in (row for rows in twin.values() for row in rows):
        for field, shift in shifts.items():
            if row.get(field):  # the topic's own queues are of group 0
                row[field] += number * shift
    return twin


def merged(books: list[Book]) -> Book:
    return {name: [row for book in books for row in book[name]] for name in books[0]}


def first(rows: list[dict[str, Any]], **like: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row[name] == value for name, value in like.items()))


def own_acked(book: Book) -> dict[str, Any]:
    """A message that was acked at once."""
    return first([row for row in book["deliveries"] if row["queue_id"] == row["message_queue_id"]], outcome="acked")


def lost_timer(book: Book) -> None:
    book["timers"].pop()


def miscounted_cancel(book: Book) -> None:
    book["tallies"][0]["cancelled"] += 1


def miscounted_ack(book: Book) -> None:
    cursor_of(book, own_acked(book))["acked"] += 1


def lost_ack(book: Book) -> None:
    """A delivery that is not in the log, though its claim is."""
    entries = [(key_of(row), row["number"]) for row in book["deliveries"]]
    acked = [entry for entry, row in zip(entries, book["deliveries"], strict=True) if row["outcome"] == "acked"]
    entry = next(entry for entry in acked if entries.count(entry) > 1)
    shared = next(r for r in book["deliveries"] if (key_of(r), r["number"]) == entry and r["outcome"] == "acked")
    book["deliveries"].remove(shared)


def lost_entry(book: Book) -> None:
    """A whole entry of the log."""
    one = own_acked(book)
    last = max(row["number"] for row in book["deliveries"] if key_of(row) == key_of(one))
    middle = last // 2
    book["deliveries"] = [r for r in book["deliveries"] if key_of(r) != key_of(one) or r["number"] != middle]


def lost_retry(book: Book) -> None:
    book["retries"].pop()


def acked_and_on_the_ladder(book: Book) -> None:
    one, like = own_acked(book), book["retries"][0]
    place = {"group": one["group"], "group_id": one["group_id"], "message_queue_id": one["queue_id"]}
    book["retries"].append(like | place | {"message_offset": one["offset"], "attempt": 2})


def acked_again(book: Book) -> None:
    """From the ladder, where nobody put it."""
    one = own_acked(book)
    back = first([row for row in book["deliveries"] if row["queue_id"] != row["message_queue_id"]])
    place = {"message_queue_id": one["queue_id"], "message_offset": one["offset"], "attempt": 1, "offset": 9999}
    book["deliveries"].append(back | place | {"group_id": one["group_id"], "group": one["group"], "outcome": "acked"})


def handed_out_again(book: Book) -> None:
    one = own_acked(book)
    book["claims"].append(one | {"claim": 9999, "number": 9999, "outcome": "open", "ended_at": None})


def lost_letter(book: Book) -> None:
    book["dead"].pop()


def lost_message(book: Book) -> None:
    one = own_acked(book)
    book["messages"].remove(first(book["messages"], queue_id=one["queue_id"], offset=one["offset"]))


def promoted_twice(book: Book) -> None:
    one = book["messages"][0]
    book["messages"][-1]["id"] = one["id"]


def promoted_and_left(book: Book) -> None:
    one = book["messages"][0]
    book["timers"].append(book["timers"][0] | {"id": one["id"]})


def cancelled_and_promoted(book: Book) -> None:
    book["cancelled"].append(book["cancelled"][0] | {"id": book["messages"][0]["id"]})


def cancelled_and_left(book: Book) -> None:
    book["cancelled"].append(book["cancelled"][0] | {"id": book["timers"][0]["id"]})


def streamed_early(book: Book) -> None:
    """By a millisecond."""
    late = next(row for row in book["messages"] if row["deliver_at"] > row["accepted_at"])
    late["streamed_at"] = late["deliver_at"] - timedelta(milliseconds=1)


def claimed_early(book: Book) -> None:
    one = own_acked(book)
    message = first(book["messages"], queue_id=one["queue_id"], offset=one["offset"])
    one["claimed_at"] = message["deliver_at"] - timedelta(seconds=1)


def held_early(book: Book) -> None:
    """In a claim that is open."""
    one = own_acked(book)
    message = first(book["messages"], queue_id=one["queue_id"], offset=one["offset"])
    book["claims"].append(one | {"claim": 9999, "number": 9999, "outcome": "open", "ended_at": None})
    book["claims"][-1]["claimed_at"] = message["deliver_at"] - timedelta(hours=1)


def back_early(book: Book) -> None:
    """From its rung, by a millisecond, and handed out."""
    one = own_returned(book)
    one["streamed_at"] = one["due"] - timedelta(milliseconds=1)


def retried_early(book: Book) -> None:
    """Claimed before its rung was over."""
    one = own_returned(book)
    claim = first(book["deliveries"], queue_id=one["queue_id"], offset=one["offset"])
    claim["claimed_at"] = one["due"] - timedelta(seconds=1)


def own_returned(book: Book) -> dict[str, Any]:
    """A return of a second attempt that was claimed."""
    claimed = {(row["queue_id"], row["offset"]) for row in book["deliveries"]}
    return next(row for row in book["returns"] if row["attempt"] > 1 and (row["queue_id"], row["offset"]) in claimed)


def claimed_past_its_time(book: Book) -> None:
    """In the millisecond from which on nobody is given it."""
    one = own_acked(book)
    message = first(book["messages"], queue_id=one["queue_id"], offset=one["offset"])
    message["expires_at"] = one["claimed_at"]


def cursor_of(book: Book, row: dict[str, Any]) -> dict[str, Any]:
    return first(book["cursors"], group_id=row["group_id"], queue_id=row["queue_id"])


def key_of(row: dict[str, Any]) -> tuple[int, int]:
    return row["group_id"], row["queue_id"]


FAULTS: dict[Callable[[Book], None], set[str]] = {
    lost_timer: {"topic_counters"},
    miscounted_cancel: {"topic_counters"},
    miscounted_ack: {"group_counters", "group_rows"},
    lost_ack: {"missing", "group_rows"},
    lost_entry: {"log_gap", "missing"},
    lost_retry: {"ladder_rows", "missing"},
    acked_and_on_the_ladder: {"ladder_rows", "doubled"},
    acked_again: {"doubled"},
    handed_out_again: {"claimed_twice", "group_counters"},
    lost_letter: {"letter_rows", "no_letter"},
    lost_message: {"hole"},
    promoted_twice: {"streamed_twice"},
    promoted_and_left: {"waiting_and_streamed", "topic_counters"},
    cancelled_and_promoted: {"cancelled_and_streamed"},
    cancelled_and_left: {"cancelled_and_waiting"},
    streamed_early: {"early"},
    claimed_early: {"early"},
    held_early: {"early", "claimed_twice"},
    back_early: {"early"},
    retried_early: {"early"},
    claimed_past_its_time: {"past_its_time"},
}
"""What is found of each at least; the first by the message, where there is one."""

ROUGH = tuple((f"{'ordered' if n % 2 else 'tagged'} {n}", n) for n in range(6))
CLEAN = ("operated on 1", "operated on 2", "operated on 3", "left alone", *(name for name, _ in ROUGH))


@pytest.fixture(scope="module")
def audit(spark: SparkSession) -> Iterator[Audit]:
    """Of all histories at once."""
    alone = history(10, steps=150, operators=False)
    books = [as_topic(history(seed, steps=120, operators=True), CLEAN[seed - 1], seed) for seed in (1, 2, 3)]
    books.append(as_topic(alone, CLEAN[3], 4))
    books += [as_topic(rough_history(n, ordered=bool(n % 2)), name, 30 + n) for name, n in ROUGH]
    for number, fault in enumerate(FAULTS, 5):
        books.append(as_topic(alone, fault.__name__, number))
        fault(books[-1])
    audit = Audit.of(look_at(spark, merged(books)), SCOPE)
    yield audit
    audit.evidence.close()


@pytest.fixture(scope="module")
def findings(audit: Audit) -> list[Row]:
    return audit.findings().collect()


@pytest.mark.parametrize("topic", CLEAN)
def test_what_a_store_wrote_is_clean(findings: list[Row], topic: str) -> None:
    assert [row for row in findings if row.topic == topic] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found(findings: list[Row], fault: Callable[[Book], None]) -> None:
    rows = [row for row in findings if row.topic == fault.__name__]
    assert {row.kind for row in rows} >= FAULTS[fault]
    assert {row.kind for row in rows} <= set(KINDS)
    places = ("missing", "doubled", "hole", "claimed_twice", "no_letter", "early", "past_its_time")
    named = [row for row in rows if row.kind in places]
    assert all(row.offset is not None and row.queue_id is not None for row in named)
    assert all(row.id is not None for row in rows if row.kind == "early")
    assert len(named) <= 12, "a fault accuses its own messages, and not the others"


def test_some_have_expired_in_the_log_alone_and_some_in_hands() -> None:
    """Or else no history here would say how these are judged."""
    rows = [row for name, n in ROUGH for row in rough_history(n, ordered=bool(n % 2))["deliveries"]]
    of_time = [row["settled_at"] is None for row in rows if row["outcome"] == "expired"]
    assert of_time.count(True) > 20
    assert of_time.count(False) > 3


def test_the_hours_add_up(audit: Audit) -> None:
    rows = hours(audit.lives).where(f.col("topic").isin(*CLEAN)).collect()
    assert len(rows) >= 8
    for row in rows:
        fates = {name: n for name, n in row.asDict().items() if name not in ("topic", "group", "hour", "messages")}
        assert row.messages == sum(fates.values())
        assert row.missing == 0
    assert audit.unchecked().where("topic <> 'lost_entry'").collect() == []


def test_the_equations_say_which_topic_is_wrong(audit: Audit) -> None:
    wrong = {row.topic for row in balances.topics(audit.evidence).collect() if not row.holds}
    assert wrong == {"lost_timer", "miscounted_cancel", "promoted_and_left"}
    broken = {row.topic for row in balances.groups(audit.evidence).collect() if not row.holds}
    assert broken == {"miscounted_ack", "handed_out_again", "held_early"}
