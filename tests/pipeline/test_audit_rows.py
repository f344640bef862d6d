"""The checks of the audit on a few literal rows: what each tells, and what it leaves alone."""

from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from support.bare_tables import Book, LiteralBooks, look_at, open_book
from support.literal_tables import moment
from support.stores import HOUR, MINUTE, START
from tarry.pipeline.audit import balances, copies, earliness, fates, holes
from tarry.pipeline.audit.evidence import Scope, look
from tarry.pipeline.audit.findings import FINDINGS, listed
from tarry.pipeline.audit.job import Audit, confirmed
from tarry.pipeline.schemas import CURSORS

pytestmark = pytest.mark.long


SCOPE = Scope(until=moment(START + 10 * HOUR))


def message(offset: int, *, at: int = START, id_: int | None = None, body: bytes = b"{}") -> dict[str, Any]:
    place = {"topic": "orders", "topic_id": 1, "queue_id": 10, "queue": 0, "offset": offset}
    times = dict.fromkeys(("accepted_at", "deliver_at", "streamed_at"), moment(at))
    return place | times | {"id": 500 + offset if id_ is None else id_, "body": bytearray(body)}


def queues(end: int, *, floor: int = 0, gone: int = 0, back: int = 0) -> list[dict[str, Any]]:
    one = {"topic": "orders", "topic_id": 1, "queue_id": 10, "queue": 0, "group_id": 0, "next_offset": end}
    one |= {"straight": end - gone, "holes": gone, "floor": floor}
    return [one, one | {"queue_id": 11, "group_id": 2, "next_offset": back, "straight": 0, "holes": 0, "floor": 0}]


def cursor(position: int, **counts: int) -> dict[str, Any]:
    names = ("acked", "dead", "retried", "expired", "skipped", "parked", "sought", "redriven", "cleared", "origin")
    zeros: dict[str, Any] = dict.fromkeys((*names, "next_claim", "next_delivery"), 0)
    return zeros | {"topic": "orders", "group": "billing", "group_id": 2, "queue_id": 10, "position": position} | counts


def delivery(number: int, offset: int, outcome: str = "acked", *, at: int = START) -> dict[str, Any]:
    group = {"topic": "orders", "group": "billing", "group_id": 2, "queue_id": 10, "queue": 0, "client": "c"}
    place = {"number": number, "claim": number, "offset": offset, "message_queue_id": 10, "message_offset": offset}
    times = dict.fromkeys(("claimed_at", "settled_at", "ended_at"), moment(at))
    return group | place | times | {"attempt": 1, "history": None, "outcome": outcome}


def acked(count: int) -> Book:
    """A topic whose messages one group has acked, in a claim each."""
    return {
        "messages": [message(offset) for offset in range(count)],
        "deliveries": [delivery(offset, offset) for offset in range(count)],
        "queues": queues(count),
        "cursors": [cursor(count, acked=count, next_delivery=count), cursor(0, queue_id=11)],
    }


def told(spark: SparkSession, book: Book) -> list[tuple[str, int | None]]:
    """What is said of the messages in their groups, and of the log."""
    seen = look_at(spark, book)
    rows = fates.check(seen, SCOPE, fates.lives(seen, SCOPE)).unionByName(balances.gaps(seen)).collect()
    return sorted(((row.kind, row.offset) for row in rows), key=str)


def test_what_is_acked_is_clean(spark: SparkSession) -> None:
    findings = Audit.of(look_at(spark, acked(3)), SCOPE).findings()
    assert [(f.name, f.dataType) for f in findings.schema] == [(f.name, f.dataType) for f in FINDINGS]
    assert findings.collect() == []


def test_counters_are_read_again_behind_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Not out of what Spark remembers of the first reading."""
    file = tmp_path / "position"
    file.write_text("2")
    schema = CURSORS
    names, blank = schema.names, cursor(0)
    rows = spark.sparkContext.parallelize([0], 1).map(
        lambda _: tuple(int(file.read_text()) if name == "position" else blank[name] for name in names)
    )

    class Moving(LiteralBooks):
        def outbox(self) -> DataFrame:
            answer = super().outbox()
            moved.append(answer)
            file.write_text(str(2 * len(moved)))
            return answer

    moved: list[DataFrame] = []
    tables = attrs.evolve(open_book(spark, {}), cursors=cast("Any", spark).createDataFrame(rows, schema))
    seen = look(tables, None, Moving(spark, {}))
    assert [row.position for row in seen.cursors.collect()] == [2]
    assert [row.position for row in seen.cursors_after.collect()] == [4]


def test_a_busy_counter_is_held_against_what_it_may_have_been(spark: SparkSession) -> None:
    """Four are claimed by the rows, and by the counters two before they were read, five after."""
    claims = [delivery(offset, offset, "open") | {"ended_at": None} for offset in range(4)]
    book: Book = {"claims": claims, "queues": queues(9), "cursors": [cursor(2), cursor(0, queue_id=11)]}
    still = look_at(spark, book)
    (row,) = balances.groups(still).where("NOT retry").collect()
    assert (row.moves, row.claimed, row.holds, row.busy) == (2, 4, False, False)
    after = open_book(spark, book | {"cursors": [cursor(5), cursor(0, queue_id=11)]}).cursors
    (row,) = balances.groups(attrs.evolve(still, cursors_after=after)).where("NOT retry").collect()
    assert (row.moves, row.claimed, row.holds, row.busy) == (2, 4, True, True)
    too_few = open_book(spark, book | {"cursors": [cursor(3), cursor(0, queue_id=11)]}).cursors
    (row,) = balances.groups(attrs.evolve(still, cursors_after=too_few)).where("NOT retry").collect()
    assert (row.holds, row.busy) == (False, True)


def test_what_an_outbox_did_counts_before_it_is_counted(spark: SparkSession) -> None:
    timer = {name: value for name, value in message(0).items() if name not in ("offset", "queue", "streamed_at")}
    book: Book = {"timers": [timer | {"due": moment(START)}], "queues": queues(0)}
    (row,) = balances.topics(look_at(spark, book)).collect()
    assert (row.accepted, row.pending, row.waiting, row.holds) == (0, 0, 1, False)
    outbox = {"topic": "orders", "topic_id": 1, "uncounted": 1, "scheduled": 2, "cancelled": 2}
    outbox |= {"replaced": 0, "suppressed": 0}
    (row,) = balances.topics(look_at(spark, book | {"outbox": [outbox]})).collect()
    assert (row.accepted, row.cancelled, row.pending, row.holds) == (3, 2, 1, True)


def test_what_guards_have_suppressed_is_not_pending(spark: SparkSession) -> None:
    counts = {"topic": "orders", "topic_id": 1, "scheduled": 3, "cancelled": 1, "replaced": 1, "suppressed": 1}
    (row,) = balances.topics(look_at(spark, {"tallies": [counts], "queues": queues(0)})).collect()
    assert (row.accepted, row.suppressed, row.pending, row.holds) == (3, 1, 0, True)
    lost = counts | {"suppressed": 0}
    (row,) = balances.topics(look_at(spark, {"tallies": [lost], "queues": queues(0)})).collect()
    assert (row.pending, row.waiting, row.holds) == (1, 0, False)


def hole_offsets(spark: SparkSession, book: Book, scope: Scope = SCOPE) -> list[int]:
    return sorted(row.offset for row in holes.check(look_at(spark, book), scope).collect())


def test_holes(spark: SparkSession) -> None:
    offsets = [*range(3), *range(5, 2400), *range(2401, 2409)]
    book: Book = {"messages": [message(offset) for offset in offsets], "queues": queues(2411)}
    assert hole_offsets(spark, book) == [3, 4, 2400, 2409, 2410]
    assert hole_offsets(spark, {"queues": queues(3)}) == [0, 1, 2], "a queue that has lost all"
    tombs = {"queues": queues(2411, gone=5)}
    assert hole_offsets(spark, book | tombs) == [], "tombstones that the source leaves out"
    assert len(hole_offsets(spark, book | {"queues": queues(2411, gone=4)})) == 5
    seen = {"messages": [*book["messages"], *(message(o, id_=-1 - o) for o in (3, 4, 2400, 2409, 2410))]}
    assert hole_offsets(spark, book | seen | tombs) == [], "and those that it gives"
    later = [message(5, at=START + HOUR)]  # 4 is not there, and may be no older
    early = Scope(until=moment(START + MINUTE))
    assert hole_offsets(spark, {"messages": [message(0), message(2), *later], "queues": queues(9)}, early) == [1, 3, 4]


def test_what_retention_took_is_no_hole(spark: SparkSession) -> None:
    """5 is on the ladder still: it stays, and so does the floor, though those behind it went."""
    retry = {"topic": "orders", "group": "billing", "group_id": 2, "retry_id": 1, "due": moment(START), "attempt": 2}
    retry |= {"message_queue_id": 10, "message_offset": 5, "message_id": 505, "history": "[]", "failed_at": None}
    held: Book = {"retries": [retry | {"parked": False}], "queues": queues(14, floor=5)}
    held["messages"] = [message(offset) for offset in (5, 9, 10, 12, 13)]
    assert hole_offsets(spark, held) == [11]
    assert hole_offsets(spark, held | {"messages": [message(5)]}) == []
    # So is one that expires later, while a group has yet to claim it.
    lasting = [message(5) | {"expires_at": moment(START + 24 * HOUR)}, *held["messages"][1:]]
    of_none: Book = {"messages": lasting, "queues": held["queues"], "cursors": [cursor(5)]}
    assert hole_offsets(spark, of_none) == [11]
    assert hole_offsets(spark, of_none | {"cursors": [cursor(6)]}) == [6, 7, 8, 11]


def test_messages_below_the_floor_are_told_of(spark: SparkSession) -> None:
    book = acked(6) | {"queues": queues(6, floor=4)}
    book["messages"] = book["messages"][4:]
    book["deliveries"] = book["deliveries"][3:]
    audit = Audit.of(look_at(spark, book), SCOPE)
    rows = [(row.group, row.what, row["count"]) for row in audit.unchecked().collect()]
    assert rows[0] == (None, "below_floor", 4)


def test_messages_older_than_the_log_are_told_of(spark: SparkSession) -> None:
    """Entries 0 to 2 are gone. What came before the first that is left may have been settled in them."""
    book = acked(6)
    book["messages"] = [message(offset, at=START + offset * MINUTE) for offset in range(6)]
    book["deliveries"] = [delivery(offset, offset, at=START + offset * MINUTE + 1000) for offset in range(3, 6)]
    assert told(spark, book) == []
    audit = Audit.of(look_at(spark, book), SCOPE)
    assert [tuple(row) for row in audit.unchecked().collect()] == [("orders", "billing", "before_log", 4)]


def test_what_a_group_passes_without_a_claim_is_limited_by_its_counters(spark: SparkSession) -> None:
    book = acked(4)
    book["deliveries"] = [delivery(0, 0), delivery(1, 3)]
    fits = [cursor(4, acked=2, skipped=1, expired=1, next_delivery=2), cursor(0, queue_id=11)]
    assert told(spark, book | {"cursors": fits}) == []
    wrong = [cursor(4, acked=2, skipped=1, redriven=1, next_delivery=2), cursor(0, queue_id=11)]
    assert ("missing", 1) in told(spark, book | {"cursors": wrong})


def test_seeks_account_for_what_they_moved_over(spark: SparkSession) -> None:
    """From 1 to 3, and back from 5 to 4: 1 and 2 were never claimed, 4 was twice."""
    seek = {"topic": "orders", "group": "billing", "group_id": 2, "queue_id": 10, "sought_at": moment(START)}
    seek |= {"released": 0}
    forth = seek | {"number": 1, "position_before": 1, "position_after": 3}
    back = seek | {"number": 4, "position_before": 5, "position_after": 4}
    book = acked(5) | {"seeks": [forth, back]}
    book["deliveries"] = [delivery(n, offset) for n, offset in ((0, 0), (2, 3), (3, 4), (5, 4))]
    book["cursors"] = [cursor(5, acked=4, sought=1, next_delivery=6), cursor(0, queue_id=11)]
    assert told(spark, book) == []
    audit = Audit.of(look_at(spark, book), SCOPE)
    (hour,) = fates.hours(audit.lives).collect()
    assert (hour.messages, hour.acked, hour.released) == (5, 3, 2)
    assert ("log_gap", None) in told(spark, book | {"seeks": [forth]})
    assert ("claimed_twice", 4) in told(spark, book | {"seeks": [forth, seek | back | {"position_after": 5}]})


def test_early(spark: SparkSession) -> None:
    """A millisecond in the stream; of a claim as much as no two clocks differ by."""
    book = acked(6)
    book["messages"][1] |= {"deliver_at": moment(START + 5)}
    book["messages"][2] |= {"accepted_at": moment(START + 7), "deliver_at": moment(START - HOUR)}
    for offset, before in ((3, 1000), (4, 999), (5, 1)):
        book["deliveries"][offset]["claimed_at"] = moment(START - before)
    seen = look_at(spark, book)
    lived = fates.lives(seen, SCOPE)
    rows = earliness.check(seen, lived).orderBy("offset").collect()
    assert [(row.kind, row.group, row.id, row.detail) for row in rows] == [
        ("early", None, 501, "in the stream 5 ms before its time"),
        ("early", None, 502, "in the stream 7 ms before its time"),
        ("early", "billing", 503, "claimed 1000 ms before its time"),
    ]
    told = [(row.what, row["count"]) for row in Audit(seen, SCOPE, lived).unchecked().collect()]
    assert told == [("within_clocks", 4)], "1 and 2 were claimed when they were in the stream"


def test_a_rung_cut_short(spark: SparkSession) -> None:
    """Of five returns: early, early and expired, claimed early, from behind its key with no rung, and well."""
    book = acked(5)
    back = {"topic": "orders", "group": "billing", "group_id": 2, "queue_id": 11, "message_queue_id": 10, "attempt": 2}
    back |= {"history": "[]", "streamed_at": moment(START + MINUTE), "due": moment(START + MINUTE)}
    late: dict[str, Any] = {"due": moment(START + MINUTE + 1)}
    never: dict[str, Any] = {"due": None}
    book["returns"] = [
        back | {"offset": n, "message_offset": n, "message_id": 500 + n} | more
        for n, more in enumerate((late, late, {}, never, {}))
    ]
    again = {"queue_id": 11, "attempt": 2}
    book["deliveries"] += [delivery(n, n, at=START + MINUTE) | again for n in range(5)]
    book["deliveries"][-4]["outcome"] = "expired"
    book["deliveries"][-3]["claimed_at"] = moment(START)
    seen = look_at(spark, book)
    rows = earliness.check(seen, fates.lives(seen, SCOPE)).orderBy("offset").collect()
    assert [(row.kind, row.group, row.id, row.detail) for row in rows] == [
        ("early", "billing", 500, "attempt 2 began 1 ms before its rung was over"),
        ("early", "billing", 502, "attempt 2 began 60000 ms before its rung was over"),
    ]


def test_copies(spark: SparkSession) -> None:
    mine = [message(offset, body=b"%d" % offset) for offset in range(6)]
    lake = [message(offset, body=b"%d" % offset) for offset in range(5) if offset != 1]
    lake[1]["body"] = bytearray(b"other")
    lake[2]["headers"] = '{"a": "b"}'
    lake[3]["id"] = 9
    tables = [open_book(spark, {"messages": rows}).messages for rows in (mine, lake)]
    rows = copies.check(*tables).orderBy("offset").collect()
    assert [(row.kind, row.offset, row.id) for row in rows] == [
        ("not_in_lake", 1, 501),
        ("copy_differs", 2, 502),
        ("copy_differs", 3, 503),
        ("copy_differs", 4, 504),
    ]
    assert rows[1].detail.startswith("body ")
    assert rows[2].detail == "same body, other key, tag, headers or times"
    assert copies.check(tables[0], tables[0]).collect() == []


def test_what_only_the_lake_has(spark: SparkSession) -> None:
    """Nobody has been handed it: no other check would miss it."""
    whole = [message(offset) for offset in range(6)]
    lake, store = (open_book(spark, {"messages": some}).messages for some in (whole[:4], [whole[0], *whole[2:]]))
    for floor, offsets in ((0, [1]), (1, []), (2, [])):
        book: Book = {"messages": whole, "queues": queues(6, floor=floor), "cursors": [cursor(0)]}
        seen = look_at(spark, book)
        assert holes.check(seen, SCOPE).collect() == []
        rows = holes.lost(seen, SCOPE, store, lake).collect()
        assert [(row.kind, row.topic, row.offset, row.id) for row in rows] == [
            ("not_in_store", "orders", offset, 500 + offset) for offset in offsets
        ]


def test_only_what_is_seen_twice_is_told(spark: SparkSession) -> None:
    """A message that was on its way when it was looked for is there the second time."""
    book = acked(5)
    first = book | {"messages": [m for m in book["messages"] if m["offset"] not in (1, 3)]}
    second = book | {"messages": [m for m in book["messages"] if m["offset"] != 3]}
    asked: list[Any] = []

    class Holes(Audit):
        def findings(self) -> DataFrame:
            return holes.check(self.evidence, self.scope)

    def look_again(topics: Any) -> Audit:
        asked.append(topics)
        return Holes.of(look_at(spark, second), SCOPE)

    def of(book: Book) -> list[Row]:
        return confirmed(Holes.of(look_at(spark, book), SCOPE), look_again).collect()

    assert [(row.kind, row.offset) for row in of(first)] == [("hole", 3)]
    assert asked == [["orders"]]
    assert of(book) == []
    assert asked == [["orders"]], "where nothing was found nobody looks again"


def test_the_list_of_each_kind_is_bounded(spark: SparkSession) -> None:
    book = acked(50) | {"queues": queues(90)}
    rows = listed(holes.check(look_at(spark, book), SCOPE), 3).collect()
    assert [(row.offset, row.total) for row in rows] == [(50, 40), (51, 40), (52, 40)]


@pytest.mark.parametrize("open_claim", [True, False])
def test_a_claim_that_ends_meanwhile_is_taken_from_the_log(spark: SparkSession, open_claim: bool) -> None:
    book = acked(2)
    book["claims"] = [delivery(0, 0, "open") | {"ended_at": None}]
    if open_claim:
        book["deliveries"] = book["deliveries"][1:]
    rows = look_at(spark, book).handed.orderBy("offset").collect()
    assert [(row.offset, row.outcome) for row in rows] == [(0, "open" if open_claim else "acked"), (1, "acked")]


def test_lives_are_limited_to_the_scope(spark: SparkSession) -> None:
    book = acked(4)
    book["messages"] = [message(offset, at=START + offset * HOUR) for offset in range(4)]
    scope = Scope(until=moment(START + 3 * HOUR), since=moment(START + HOUR))
    rows = fates.lives(look_at(spark, book), scope).orderBy("offset").collect()
    assert [row.offset for row in rows] == [1, 2]
