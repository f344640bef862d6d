"""The figure of schedules, on literal rows."""

from pyspark.sql import SparkSession

from support.literal_tables import literal_tables, rows_of
from tarry.pipeline.report import schedule_figures
from tarry.pipeline.report.window import HOUR, MINUTE, SECOND, Window

WINDOW = Window(HOUR, 2 * HOUR)


def test_without_fires_there_is_nothing(spark: SparkSession) -> None:
    frame = schedule_figures.schedules(literal_tables(spark), WINDOW)
    assert frame.schema == schedule_figures.SCHEDULES
    assert rows_of(frame) == []


def test_what_became_of_the_fire_times_of_the_window(spark: SparkSession) -> None:
    def fire(nth: int, outcome: str, late: int = 0, **more: object) -> dict[str, object]:
        fire_at = HOUR + nth * MINUTE
        sent = outcome in ("fired", "kept", "run", "backfilled")
        row = {"fire_at": fire_at, "at": fire_at + late, "outcome": outcome, "message_id": nth if sent else None}
        return row | more

    tables = literal_tables(
        spark,
        messages=[{"id": 3, "offset": 3, "deliver_at": HOUR + 3 * MINUTE + 20 * SECOND}],  # by its jitter
        fires=[
            fire(0, "fired", 10),
            fire(3, "fired", 20 * SECOND + 30),
            fire(4, "kept", 5),  # and in the end
            fire(4, "fired", 90 * SECOND),
            fire(5, "missed"),  # and made up for
            fire(5, "backfilled", 9 * HOUR),
            fire(6, "missed"),
            fire(7, "overlapped"),
            fire(8, "kept"),
            fire(9, "run"),
            fire(10, "cancelled"),
            fire(-1, "fired"),
            fire(60, "missed"),
            fire(1, "fired", 7, schedule="quiet", schedule_id=2, topic="u"),
        ],
    )
    none = dict.fromkeys(("caught_up", "missed", "overlapped", "queued", "cancelled", "run", "backfilled"), 0)
    assert rows_of(schedule_figures.schedules(tables, WINDOW)) == [
        {"schedule": "daily", "topic": "t", "fired": 2}
        | dict.fromkeys(none, 1)
        | {"late_p50": 30, "late_p99": 90 * SECOND, "longest": 90 * SECOND, "last": HOUR + 10 * MINUTE},
        {"schedule": "quiet", "topic": "u", "fired": 1}
        | none
        | {"late_p50": 7, "late_p99": 7, "longest": 7, "last": HOUR + MINUTE},
    ]
