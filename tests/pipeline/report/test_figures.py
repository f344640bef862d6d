"""The figures of the history, on literal rows."""

import json

from pyspark.sql import SparkSession

from support.literal_tables import literal_tables, rows_of
from tarry.pipeline.report import figures
from tarry.pipeline.report.window import HOUR, MINUTE, Window

WINDOW = Window(HOUR, 2 * HOUR)
"""The second hour of 1970."""


def test_without_rows_there_are_no_figures(spark: SparkSession) -> None:
    empty = literal_tables(spark)
    for figure, schema in (
        (figures.topics, figures.TOPICS),
        (figures.handling, figures.HANDLING),
        (figures.ladder, figures.LADDER),
        (figures.dead_letters, figures.DEAD_LETTERS),
        (figures.lost_leases, figures.LOST_LEASES),
        (figures.due_minutes, figures.DUE_MINUTES),
    ):
        frame = figure(empty, WINDOW)
        assert frame.schema == schema
        assert rows_of(frame) == []


def test_the_overview_of_nothing_is_a_row_of_noughts(spark: SparkSession) -> None:
    frame = figures.overview(literal_tables(spark), WINDOW)
    assert frame.schema == figures.OVERVIEW
    assert rows_of(frame) == [
        dict.fromkeys(figures.OVERVIEW.names, 0)
        | {"first": None, "last": None, "oldest_overdue": None, "replaced": None},
    ]


def test_overview(spark: SparkSession) -> None:
    tables = literal_tables(
        spark,
        messages=[
            {"offset": 0, "streamed_at": HOUR - 1, "deliver_at": 0},
            {"offset": 1, "streamed_at": HOUR, "deliver_at": 0},
            {"offset": 2, "streamed_at": 2 * HOUR, "deliver_at": 0},
        ],
        deliveries=[
            {"offset": 0, "claimed_at": HOUR - 1},
            {"offset": 1, "claimed_at": HOUR},
            {"offset": 2, "claimed_at": HOUR, "outcome": "acked_outside"},
            {"offset": 3, "claimed_at": HOUR, "outcome": "retried"},
            {"offset": 4, "claimed_at": HOUR, "outcome": "lost_dead"},
            {"offset": 5, "claimed_at": HOUR, "outcome": "skipped"},
            {"offset": 6, "claimed_at": HOUR, "outcome": "parked", "settled_at": None},
            {"offset": 7, "claimed_at": HOUR, "outcome": "parked", "message_queue_id": None},
            {"offset": 9, "claimed_at": HOUR, "outcome": "expired"},  # in somebody's hands
            {"offset": 10, "claimed_at": HOUR, "outcome": "expired", "settled_at": None},
            {"offset": 11, "claimed_at": 2 * HOUR, "outcome": "expired", "settled_at": None},
        ],
        claims=[{"offset": 8, "claimed_at": HOUR}],
        cancelled=[
            {"id": 1, "deliver_at": 0, "cancelled_at": HOUR},
            {"id": 2, "deliver_at": 0, "cancelled_at": 0},
            *({"id": n, "deliver_at": 0, "cancelled_at": HOUR, "reason": "suppressed"} for n in (5, 6)),
            {"id": 7, "deliver_at": 0, "cancelled_at": 0, "reason": "suppressed"},
        ],
        tallies=[{"replaced": 3}, {"topic": "u", "topic_id": 2, "replaced": 4}],
        dead=[{"id": 3, "deliver_at": 0, "dead_at": HOUR}],
        timers=[{"id": 4, "due": 9 * HOUR}],
    )
    assert rows_of(figures.overview(tables, WINDOW)) == [
        {"messages": 1, "first": HOUR - 1, "last": 2 * HOUR, "cancelled": 1, "suppressed": 2, "replaced": 7}
        | {"expired": 2, "waiting": 1, "overdue": 0, "oldest_overdue": None, "unplaced": 1}
        | {"deliveries": 7, "acked": 2, "failed": 1, "lost": 1, "dead": 1}
    ]


def test_what_is_past_its_time_and_not_in_the_stream_is_told_of_a_window_to_now(spark: SparkSession) -> None:
    tables = literal_tables(
        spark,
        timers=[{"id": 1, "due": HOUR + 9}, {"id": 2, "due": 2 * HOUR - 1}, {"id": 3, "due": 2 * HOUR}],
        retries=[
            {"message_id": 4, "due": HOUR + 5},
            {"message_id": 5, "due": HOUR, "parked": True},
        ],
    )
    (now,) = rows_of(figures.overview(tables, Window(HOUR, 2 * HOUR, is_now=True)))
    assert (now["waiting"], now["overdue"], now["oldest_overdue"]) == (3, 3, HOUR - 5)
    (past,) = rows_of(figures.overview(tables, WINDOW))
    assert (past["overdue"], past["oldest_overdue"]) == (0, None)


def test_topics_by_volume_and_growth(spark: SparkSession) -> None:
    def came(topic: str, at: int, offset: int, ahead: int = 0) -> dict[str, object]:
        return {"topic": topic, "offset": offset, "streamed_at": at, "deliver_at": at, "accepted_at": at - ahead}

    tables = literal_tables(
        spark,
        messages=[
            *(came("small", HOUR, n) for n in range(1)),
            *(came("big", 0, n) for n in range(2)),
            *(came("big", HOUR + n, n, ahead=n) for n in range(3)),
        ],
        timers=[{"topic": "later", "id": 1, "due": 0}],
        cancelled=[
            {"topic": "big", "id": 1, "deliver_at": 0, "cancelled_at": HOUR},
            {"topic": "gone", "id": 2, "deliver_at": 0, "cancelled_at": HOUR, "reason": "suppressed"},
        ],
    )
    row = dict.fromkeys(figures.TOPICS.names) | {"suppressed": 0}
    assert rows_of(figures.topics(tables, WINDOW)) == [
        row | {"topic": "big", "messages": 3, "scheduled": 2, "cancelled": 1, "waiting": 0, "before": 2, "growth": 0.5},
        row | {"topic": "small", "messages": 1, "scheduled": 0, "cancelled": 0, "waiting": 0, "before": 0},
        row | {"topic": "later", "messages": 0, "scheduled": 0, "cancelled": 0, "waiting": 1, "before": 0},
        dict.fromkeys(row, 0) | {"topic": "gone", "suppressed": 1, "growth": None},
    ]


def test_growth_is_unknown_when_the_history_does_not_reach_back(spark: SparkSession) -> None:
    tables = literal_tables(spark, messages=[{"offset": 0, "streamed_at": HOUR, "deliver_at": 0}])
    (row,) = rows_of(figures.topics(tables, WINDOW))
    assert (row["messages"], row["before"], row["growth"]) == (1, None, None)


def test_handling_is_from_the_hand_out_to_the_ack_or_the_fail(spark: SparkSession) -> None:
    def took(ms: int, outcome: str, group: str = "g") -> dict[str, object]:
        return {"group": group, "offset": ms, "claimed_at": HOUR, "settled_at": HOUR + ms, "outcome": outcome}

    tables = literal_tables(
        spark,
        deliveries=[
            *(took(ms, "acked") for ms in range(1, 98)),
            took(98, "retried"),
            took(99, "dead"),
            took(60_000, "lost"),
            took(70_000, "suspended"),
            took(2 * HOUR, "acked"),  # settled after the window
            took(5000, "acked", "slow"),
        ],
        claims=[took(100, "acked")],
    )
    assert rows_of(figures.handling(tables, WINDOW)) == [
        {"topic": "t", "group": "slow", "handled": 1, "p50": 5000, "p99": 5000, "longest": 5000},
        {"topic": "t", "group": "g", "handled": 100, "p50": 50, "p99": 99, "longest": 100},
    ]


def test_the_ladder_is_a_funnel(spark: SparkSession) -> None:
    def handed(attempt: int | None, outcome: str) -> dict[str, object]:
        return {"offset": 0, "claimed_at": HOUR, "attempt": attempt, "outcome": outcome}

    tables = literal_tables(
        spark,
        deliveries=[
            handed(2, "acked"),
            handed(1, "acked"),
            handed(1, "acked_outside"),
            handed(1, "retried"),
            handed(1, "lost"),
            handed(1, "released"),
            handed(1, "skipped"),
            handed(2, "dead"),
            handed(2, "lost_dead"),
            handed(None, "acked"),
            handed(1, "acked") | {"claimed_at": 0},
        ],
        claims=[handed(1, "open")],
    )
    assert rows_of(figures.ladder(tables, WINDOW)) == [
        {"attempt": 1, "deliveries": 6, "acked": 2, "failed": 1, "lost": 1, "dead": 0, "other": 2},
        {"attempt": 2, "deliveries": 3, "acked": 1, "failed": 0, "lost": 0, "dead": 2, "other": 0},
    ]


def test_dead_letters_by_the_reason_of_their_last_attempt(spark: SparkSession) -> None:
    def died(at: int, *reasons: str | None) -> dict[str, object]:
        history = [{"at": at, "client": "c", "reason": reason} for reason in reasons]
        return {"id": at, "deliver_at": 0, "dead_at": at, "history": json.dumps(history)}

    tables = literal_tables(
        spark,
        dead=[
            died(HOUR, "first", "no crew"),
            died(HOUR + 5, "no crew"),
            died(HOUR + 1, "no crew", "lease lost"),
            died(HOUR + 2, "no crew", None),
            died(HOUR + 3, "x" * 500),
            died(HOUR + 4) | {"history": "not JSON"},
            died(2 * HOUR, "no crew"),
        ],
    )

    def row(reason: str | None, dead: int, first: int, last: int) -> dict[str, object]:
        told: dict[str, object] = {"topic": "t", "group": "g", "reason": reason, "dead": dead, "reason_dead": dead}
        return told | {"first": HOUR + first, "last": HOUR + last, "last_id": HOUR + last}

    assert rows_of(figures.dead_letters(tables, WINDOW)) == [
        row("no crew", 2, 0, 5),
        row(None, 2, 2, 4),
        row("lease lost", 1, 1, 1),
        row("x" * 160, 1, 3, 3),
    ]


def test_a_ranking_by_reason_or_client_knows_the_groups_that_it_does_not_show(spark: SparkSession) -> None:
    """Number 0 crowds sixty groups, more than there are rows to show; the others are in one group, and rarer."""

    def rows(name: str, outcome: str | None) -> list[dict[str, object]]:
        places = [(0, group) for group in range(60) for _ in range(21)]
        places += [(n, 60) for n in range(1, 20) for _ in range(20 - n)]
        made: list[dict[str, object]] = []
        for n, (which, group) in enumerate(places):
            row: dict[str, object] = {"id": n, "deliver_at": 0, "dead_at": HOUR, "group": f"g{group}"}
            if outcome is None:
                row["history"] = json.dumps([{"at": 1, "client": "c", "reason": f"{name}{which}"}])
            else:
                row = {"offset": n, "client": f"{name}{which}", "group": f"g{group}", "outcome": outcome}
                row |= {"claimed_at": HOUR, "settled_at": HOUR}
            made.append(row)
        return made

    tables = literal_tables(spark, dead=rows("r", None), deliveries=rows("c", "lost"))
    for figure, name, count in ((figures.dead_letters, "reason", "dead"), (figures.lost_leases, "client", "lost")):
        found = rows_of(figure(tables, WINDOW))
        sums = {row[name][1:]: row[f"{name}_{count}"] for row in found}
        assert sums == {"0": 60 * 21} | {str(n): 20 - n for n in range(1, 15)}, "the fifteen with most, summed over all"
        assert [row[count] for row in found] == sorted((row[count] for row in found), reverse=True)
        assert len([row for row in found if row[count] == 21]) == figures.MOST - 14


def test_lost_leases_by_client(spark: SparkSession) -> None:
    def held(client: str, outcome: str, ms: int = 0) -> dict[str, object]:
        return {"client": client, "offset": 0, "claimed_at": HOUR, "settled_at": HOUR + ms, "outcome": outcome}

    tables = literal_tables(
        spark,
        deliveries=[
            held("good", "acked"),
            held("bad", "lost", 60_000),
            held("bad", "lost_dead", 30_000),
            held("bad", "lost", 61_000),
            held("bad", "acked"),
            held("old", "lost") | {"settled_at": HOUR - 1},
            held("slow", "lost", 9),
        ],
    )
    assert rows_of(figures.lost_leases(tables, WINDOW)) == [
        {"client": "bad", "topic": "t", "group": "g", "lost": 3, "dead": 1, "deliveries": 4, "share": 0.75}
        | {"held_p50": 60_000, "last": HOUR + 61_000, "client_lost": 3},
        {"client": "slow", "topic": "t", "group": "g", "lost": 1, "dead": 0, "deliveries": 1, "share": 1.0}
        | {"held_p50": 9, "last": HOUR + 9, "client_lost": 1},
    ]


def test_the_busiest_due_minutes(spark: SparkSession) -> None:
    def due(at: int, topic: str = "t") -> dict[str, object]:
        return {"topic": topic, "offset": 0, "deliver_at": at, "id": at}

    tables = literal_tables(
        spark,
        messages=[due(HOUR), due(HOUR + 1), due(HOUR + MINUTE, "a"), due(HOUR + MINUTE - 1, "a"), due(2 * HOUR)],
        timers=[due(HOUR + MINUTE, "b"), due(3 * HOUR, "b")],
    )
    minutes = [
        {"minute": HOUR, "messages": 3, "waiting": 0, "topic": "t", "topic_messages": 2},
        {"minute": HOUR + MINUTE, "messages": 2, "waiting": 1, "topic": "b", "topic_messages": 1},
    ]
    assert rows_of(figures.due_minutes(tables, WINDOW)) == minutes
    to_come = {"minute": 3 * HOUR, "messages": 1, "waiting": 1, "topic": "b", "topic_messages": 1}
    assert rows_of(figures.due_minutes(tables, Window(HOUR, 2 * HOUR, is_now=True))) == [*minutes, to_come]


LONGER = Window(HOUR, HOUR + 150 * MINUTE + 30_000)


def test_the_rate_of_each_step_also_of_those_without_anything(spark: SparkSession) -> None:
    step = 5 * MINUTE
    assert LONGER.step == step
    tables = literal_tables(
        spark,
        messages=[{"offset": n, "streamed_at": at, "deliver_at": 0} for n, at in enumerate((HOUR - 1, HOUR, HOUR + 1))]
        + [{"offset": 9, "streamed_at": LONGER.until - 1, "deliver_at": 0}],
        deliveries=[
            {"offset": n, "claimed_at": HOUR, "settled_at": HOUR + step, "outcome": outcome}
            for n, outcome in enumerate(("acked", "retried", "lost", "lost_dead", "suspended"))
        ],
        claims=[{"offset": 7, "claimed_at": HOUR, "outcome": "acked_outside", "settled_at": HOUR + 2}],
    )
    frame = figures.rate(tables, LONGER)
    assert frame.schema == figures.RATE
    rows = rows_of(frame)
    assert [row["at"] for row in rows] == list(range(HOUR, LONGER.until, step))
    assert rows[0] == {"at": HOUR, "seconds": 300.0, "streamed": 2, "acked": 1, "failed": 0}
    assert rows[1] == {"at": HOUR + step, "seconds": 300.0, "streamed": 0, "acked": 1, "failed": 3}
    assert {(row["streamed"], row["acked"], row["failed"]) for row in rows[2:-1]} == {(0, 0, 0)}
    assert (rows[-1]["seconds"], rows[-1]["streamed"]) == (30.0, 1), "the last step is short"


def test_the_skew_of_queues(spark: SparkSession) -> None:
    def message(topic: str, queue: int, offset: int) -> dict[str, object]:
        return {"topic": topic, "queue_id": queue + 1, "queue": queue, "offset": offset, "deliver_at": HOUR}

    tables = literal_tables(
        spark,
        messages=[
            *(message("skewed", 1, n) for n in range(6)),
            *(message("skewed", 0, n) for n in range(2)),
            *(message("even", n, 0) for n in range(2)),
            message("alone", 0, 0),
        ],
        queues=[{"topic": "skewed", "queue": n, "queue_id": n + 1} for n in range(4)]
        + [{"topic": "skewed", "queue": 7, "queue_id": 9, "group_id": 5}],  # a retry queue
    )
    frame = figures.queues(tables, LONGER)
    assert frame.schema == figures.QUEUES
    assert rows_of(frame) == [
        {"topic": "skewed", "queues": 4, "messages": 8, "fullest": 1, "fullest_messages": 6, "emptiest_messages": 0}
        | {"skew": 3.0},
        {"topic": "even", "queues": 2, "messages": 2, "fullest": 0, "fullest_messages": 1, "emptiest_messages": 1}
        | {"skew": 1.0},
    ]
