"""Duties and the figures that come from them, on literal rows."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.literal_tables import literal_frame, literal_tables, rows_of
from tarry.pipeline.report import duty_figures
from tarry.pipeline.report.duties import DUTIES, duties
from tarry.pipeline.report.window import HOUR, MINUTE, Window

pytestmark = pytest.mark.long


WINDOW = Window(HOUR, 2 * HOUR)
NOW = Window(HOUR, 2 * HOUR, is_now=True)


def _message(offset: int, at: int = HOUR) -> dict[str, Any]:
    return {"offset": offset, "deliver_at": at, "streamed_at": at + 5}


def _settled(frame: Any) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    return {(row["group"], row["offset"]): (row["handed_at"], row["settled_at"]) for row in rows_of(frame)}


def test_without_rows_there_are_no_duties(spark: SparkSession) -> None:
    frame = duties(literal_tables(spark), WINDOW)
    assert frame.schema == DUTIES
    assert rows_of(frame) == []


def test_a_duty_is_a_message_and_a_group(spark: SparkSession) -> None:
    tables = literal_tables(
        spark,
        messages=[_message(0), _message(1)],
        deliveries=[{"offset": 0, "claimed_at": HOUR + 7, "settled_at": HOUR + 8}],
        cursors=[{"group": "g", "group_id": 1, "position": 1}, {"group": "new", "group_id": 2, "position": 0}],
    )
    row = dict.fromkeys(("handed_at", "settled_at"))
    row |= {"topic": "t", "queue_id": 1, "id": 0, "due": HOUR, "streamed_at": HOUR + 5}
    expected = [
        row | {"group": "g", "offset": 0, "handed_at": HOUR + 7, "settled_at": HOUR + 8},
        row | {"group": "g", "offset": 1},
        row | {"group": "new", "offset": 0},
        row | {"group": "new", "offset": 1},
    ]
    found = rows_of(duties(tables, NOW).orderBy("group", "offset"))
    assert found == [{name: wanted[name] for name in DUTIES.names} for wanted in expected]


def test_a_time_that_was_past_when_it_was_accepted_means_at_once(spark: SparkSession) -> None:
    """As the flights of an import have it: nobody was late by years."""
    message = {"offset": 0, "deliver_at": 0, "accepted_at": HOUR, "streamed_at": HOUR + 5}
    tables = literal_tables(spark, messages=[message], deliveries=[{"offset": 0, "claimed_at": HOUR + 7}])
    found = duties(tables, WINDOW)
    assert [row["due"] for row in rows_of(found)] == [HOUR]
    assert [row["late_p99"] for row in rows_of(duty_figures.slow_groups(found, WINDOW))] == [7]
    assert [(row["p99"], row["handed_out"]) for row in rows_of(duty_figures.punctuality(found, WINDOW))] == [(7, 1)]


def test_the_first_hand_out_and_the_first_end_count(spark: SparkSession) -> None:
    back = {"queue_id": 9, "message_queue_id": 1, "message_offset": 0}
    tables = literal_tables(
        spark,
        messages=[_message(0), _message(1), _message(2)],
        deliveries=[
            {"offset": 0, "claimed_at": HOUR + 20, "outcome": "suspended"},
            {"offset": 0, "claimed_at": HOUR + 30, "settled_at": HOUR + 31, "outcome": "retried"},
            {**back, "offset": 0, "attempt": 2, "claimed_at": HOUR + 10, "settled_at": HOUR + 40, "outcome": "dead"},
            {**back, "offset": 1, "attempt": 1, "claimed_at": HOUR + 50, "settled_at": HOUR + 51},  # redriven
            {"offset": 1, "claimed_at": HOUR + 60, "outcome": "skipped", "settled_at": None, "ended_at": HOUR + 61},
            {"offset": 2, "claimed_at": HOUR + 70, "outcome": "parked", "settled_at": None},
            {"offset": 3, "claimed_at": HOUR, "message_queue_id": None},
        ],
    )
    assert _settled(duties(tables, WINDOW)) == {
        ("g", 0): (HOUR + 20, HOUR + 40),
        ("g", 1): (None, HOUR + 61),
        ("g", 2): (None, None),
    }


def test_what_the_cursor_passed_over_is_no_duty(spark: SparkSession) -> None:
    tables = literal_tables(
        spark,
        messages=[_message(offset) for offset in range(6)],
        deliveries=[{"offset": 2, "claimed_at": HOUR + 9}],
        claims=[{"offset": 3, "claimed_at": HOUR + 9}],
        cursors=[{"origin": 1, "position": 5}],
    )
    assert set(_settled(duties(tables, NOW))) == {("g", 2), ("g", 3), ("g", 5)}
    # Where the cursor stood at the end of a window that is past, the furthest hand-out tells.
    assert set(_settled(duties(tables, WINDOW))) == {("g", 2), ("g", 3), ("g", 4), ("g", 5)}


def _duties(spark: SparkSession, *rows: dict[str, Any]) -> Any:
    plain = {"topic": "t", "group": "g", "queue_id": 1, "offset": 0, "id": 0, "due": 0, "streamed_at": 0}
    return literal_frame(spark, DUTIES, [plain | row for row in rows])


def test_without_duties_there_are_no_figures(spark: SparkSession) -> None:
    for figure, schema in (
        (duty_figures.backlog, duty_figures.BACKLOG),
        (duty_figures.lateness, duty_figures.LATENESS),
        (duty_figures.slow_groups, duty_figures.SLOW_GROUPS),
    ):
        frame = figure(_duties(spark), WINDOW)
        assert frame.schema == schema
        assert rows_of(frame) == []
    nothing = dict.fromkeys(duty_figures.PUNCTUALITY.names) | dict.fromkeys(
        ("handed_out", "waiting", "early", "unsettled", "behind"), 0
    )
    assert rows_of(duty_figures.punctuality(_duties(spark), WINDOW)) == [nothing]


def test_backlog_is_what_came_less_what_is_settled(spark: SparkSession) -> None:
    window = Window(HOUR, HOUR + 250 * 1000)  # steps of 10 s
    step = window.step
    frame = _duties(
        spark,
        {"streamed_at": HOUR - 5, "settled_at": HOUR - 1},
        {"streamed_at": HOUR - 5, "settled_at": HOUR + 1},
        {"streamed_at": HOUR - 5},
        {"streamed_at": HOUR + step, "settled_at": HOUR + 3 * step},
        {"streamed_at": window.until - 1},
        {"streamed_at": window.until},
        {"group": "idle", "streamed_at": HOUR - 5, "settled_at": HOUR - 4},
    )
    rows = rows_of(duty_figures.backlog(frame, window))
    assert step == 10_000
    assert [row["at"] for row in rows] == 2 * list(range(HOUR, window.until + 1, step))
    assert [row["group"] for row in rows] == 26 * ["g"] + 26 * ["idle"]
    assert [row["backlog"] for row in rows] == [2, 1, 2, 2, *21 * [1], 2] + 26 * [0]
    told = [(row["arrived"], row["settled"]) for row in rows[:6]]
    assert told == [(None, None), (0, 1), (1, 0), (0, 0), (0, 1), (0, 0)]
    assert (rows[25]["arrived"], rows[25]["settled"]) == (1, 0)


def test_the_last_step_may_be_short(spark: SparkSession) -> None:
    window = Window(HOUR, HOUR + 155 * 1000)
    rows = rows_of(duty_figures.backlog(_duties(spark, {"streamed_at": window.until - 1}), window))
    assert [row["at"] for row in rows[-3:]] == [HOUR + 140_000, HOUR + 150_000, HOUR + 155_000]
    assert [row["backlog"] for row in rows[-3:]] == [0, 0, 1]


def test_only_the_groups_with_the_highest_peaks(spark: SparkSession) -> None:
    frame = _duties(
        spark, *({"group": f"g{n:02}", "streamed_at": HOUR} for n in range(20)), {"group": "g19", "streamed_at": HOUR}
    )
    rows = rows_of(duty_figures.backlog(frame, WINDOW))
    groups = list(dict.fromkeys(row["group"] for row in rows))
    assert groups == ["g19", *(f"g{n:02}" for n in range(11))]


def test_lateness_by_topic_and_hour(spark: SparkSession) -> None:
    window = Window(HOUR, 3 * HOUR)

    def late(ms: int, due: int = HOUR, topic: str = "t") -> dict[str, Any]:
        return {"topic": topic, "due": due, "streamed_at": due + 1, "handed_at": due + ms}

    frame = _duties(
        spark,
        late(7, 2 * HOUR, "a"),
        *(late(ms) for ms in range(1, 1001)),
        late(9, 3 * HOUR - 1),
        late(9, 3 * HOUR),
        late(9, HOUR - 1),
        {"due": HOUR, "streamed_at": HOUR, "settled_at": HOUR},
    )
    same = {"waiting": 0, "streamed_p99": 1, "latest_id": 0}
    assert rows_of(duty_figures.lateness(frame, window)) == [
        {"topic": "t", "hour": HOUR, "handed_out": 1000, "p50": 500, "p99": 990, "p999": 999} | same,
        {"topic": "t", "hour": 3 * HOUR - 5 * MINUTE, "handed_out": 1, "p50": 9, "p99": 9, "p999": 9} | same,
        {"topic": "a", "hour": 2 * HOUR, "handed_out": 1, "p50": 7, "p99": 7, "p999": 7} | same,
    ]


def test_the_longer_all_stands_still_the_later_it_is(spark: SparkSession) -> None:
    """Ten were handed out at once; then nobody came any more."""
    quick = [{"id": n, "due": HOUR, "streamed_at": HOUR, "handed_at": HOUR + 5, "settled_at": HOUR} for n in range(10)]
    stuck = [{"id": 10 + n, "due": HOUR + n, "streamed_at": HOUR + n} for n in range(90)]
    told: list[tuple[int, int, int, int]] = []
    for hours in (2, 6):
        window = Window(HOUR, hours * HOUR, is_now=True)
        frame = _duties(spark, *quick, *stuck)
        (whole,) = rows_of(duty_figures.punctuality(frame, window))
        cells = rows_of(duty_figures.lateness(frame, window))
        (group,) = rows_of(duty_figures.slow_groups(frame, window))
        assert (whole["handed_out"], whole["waiting"], whole["behind"]) == (10, 90, 1)
        assert (cells[0]["handed_out"], cells[0]["waiting"], cells[0]["latest_id"]) == (10, 90, 10)
        assert (group["waiting"], group["oldest"], group["oldest_id"]) == (90, (hours - 1) * HOUR, 10)
        told.append((whole["p50"], whole["p99"], cells[0]["p99"], group["late_p99"]))
    assert all(later - sooner == 4 * HOUR for sooner, later in zip(*told, strict=True))


def test_punctuality_counts_what_came_early(spark: SparkSession) -> None:
    frame = _duties(spark, *({"due": HOUR, "streamed_at": HOUR, "handed_at": HOUR + ms} for ms in (-1, 0, 20)))
    assert rows_of(duty_figures.punctuality(frame, WINDOW)) == [
        {"handed_out": 3, "waiting": 0, "p50": 0, "p99": 20, "p999": 20, "streamed_p99": 0}
        | {"early": 1, "unsettled": 3, "behind": 0}
    ]


def test_punctuality_counts_what_is_unsettled_in_more_groups_than_a_ranking_shows(spark: SparkSession) -> None:
    rows = [
        {"group": f"g{n}", "due": HOUR + ms, "streamed_at": HOUR + ms} for n in range(60) for ms in (0, HOUR - 1, HOUR)
    ]
    rows += [{"group": "fresh", "due": 2 * HOUR - MINUTE, "streamed_at": 2 * HOUR - MINUTE}]
    rows += [{"group": "had", "due": HOUR, "streamed_at": HOUR, "handed_at": HOUR}]
    rows += [{"group": "done", "due": HOUR, "streamed_at": HOUR, "handed_at": HOUR, "settled_at": HOUR}]
    (told,) = rows_of(duty_figures.punctuality(_duties(spark, *rows), WINDOW))
    assert (told["unsettled"], told["behind"]) == (122, 60)


def test_slow_groups(spark: SparkSession) -> None:
    frame = _duties(
        spark,
        {"group": "late", "due": HOUR, "streamed_at": HOUR, "handed_at": HOUR + 90, "settled_at": HOUR + 95},
        {"group": "late", "due": HOUR, "streamed_at": HOUR, "handed_at": HOUR + 10},
        {"group": "stuck", "due": 2 * HOUR - MINUTE, "streamed_at": 2 * HOUR - 7},
        {"group": "stuck", "due": HOUR, "streamed_at": HOUR, "settled_at": 2 * HOUR},
        {"group": "stuck", "due": HOUR, "streamed_at": 2 * HOUR},
        {"group": "gone", "streamed_at": 0, "settled_at": 1},
    )
    assert rows_of(duty_figures.slow_groups(frame, WINDOW)) == [
        {"topic": "t", "group": "stuck", "arrived": 2, "settled": 0, "unsettled": 2, "waiting": 2}
        | {"oldest": HOUR, "oldest_id": 0, "late_p50": MINUTE, "late_p99": HOUR},
        {"topic": "t", "group": "late", "arrived": 2, "settled": 1, "unsettled": 1, "waiting": 0}
        | {"oldest": None, "oldest_id": None, "late_p50": 10, "late_p99": 90},
    ]
