"""Rate and skew, on literal rows."""

from pyspark.sql import SparkSession

from support.literal_tables import literal_tables, rows_of
from tarry.pipeline.report import figures
from tarry.pipeline.report.window import HOUR, MINUTE, Window

WINDOW = Window(HOUR, HOUR + 150 * MINUTE + 30_000)


def test_the_rate_of_each_step_also_of_those_without_anything(spark: SparkSession) -> None:
    step = 5 * MINUTE
    assert WINDOW.step == step
    tables = literal_tables(
        spark,
        messages=[{"offset": n, "streamed_at": at, "deliver_at": 0} for n, at in enumerate((HOUR - 1, HOUR, HOUR + 1))]
        + [{"offset": 9, "streamed_at": WINDOW.until - 1, "deliver_at": 0}],
        deliveries=[
            {"offset": n, "claimed_at": HOUR, "settled_at": HOUR + step, "outcome": outcome}
            for n, outcome in enumerate(("acked", "retried", "lost", "lost_dead", "suspended"))
        ],
        claims=[{"offset": 7, "claimed_at": HOUR, "outcome": "acked_outside", "settled_at": HOUR + 2}],
    )
    frame = figures.rate(tables, WINDOW)
    assert frame.schema == figures.RATE
    rows = rows_of(frame)
    assert [row["at"] for row in rows] == list(range(HOUR, WINDOW.until, step))
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
    frame = figures.queues(tables, WINDOW)
    assert frame.schema == figures.QUEUES
    assert rows_of(frame) == [
        {"topic": "skewed", "queues": 4, "messages": 8, "fullest": 1, "fullest_messages": 6, "emptiest_messages": 0}
        | {"skew": 3.0},
        {"topic": "even", "queues": 2, "messages": 2, "fullest": 0, "fullest_messages": 1, "emptiest_messages": 1}
        | {"skew": 1.0},
    ]
