"""Makes a history to report on from real flights: what planned departures from New York would have left in the tables.

A topic is a carrier; a message is a flight, due at its planned departure. Two groups consume each carrier: `boarding`,
fast and with failures, and `baggage`, slower, with a stop of two hours. The flight's row decides: late planes fail some
attempts; planes without a departure time were cancelled, or nobody boards them. Nothing is random: the same flights
give the same history.

    PYTHONPATH=.tree:tests .venv/bin/python -P -m support.flight_history FOLDER [FLIGHTS.csv or .zip]

writes the report of it.
"""

import csv
import io
import json
import sys
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tarry.pipeline.schemas import Tables
from tarry.store.ids import SEQUENCE_BITS

from .literal_tables import literal_tables

SAMPLE = Path(__file__).parents[2] / "service" / "demo" / "sample" / "flights-2013-11-27.csv"
GROUPS = ("boarding", "baggage")
NIGHT = 1_385_614_800_000
"""2013-11-28T05:00:00Z: midnight of the sample's day in New York, milliseconds."""
_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000
_RUNGS = (10, 30, 60, 120, 180, 240)  # seconds; a short ladder
_REASONS = ("no crew", "gate is taken", "aircraft is late", "HTTP 503 from the gate system", None)

Row = dict[str, Any]


def flights(path: Path, month: int | None = None) -> Iterator[Row]:
    """Reads the rows of the CSV in the order of planned departures."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            text = archive.read(archive.namelist()[0]).decode()
    else:
        text = path.read_text("utf-8")
    rows = [row for row in csv.DictReader(io.StringIO(text)) if month is None or int(row["month"]) == month]
    for row in rows:
        planned = datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["sched_dep_time"]) % 100)
        row["due"] = round(planned.timestamp() * 1000)
    yield from sorted(rows, key=lambda row: (row["due"], row["carrier"], int(row["flight"])))


def flight_tables(spark: SparkSession, rows: Iterable[Row]) -> Tables:
    """The pipeline's tables that the flights give."""
    return literal_tables(spark, **history(rows))


def history(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of the tables, by table."""
    made = _History()
    for row in rows:
        made.add(row)
    return made.finished()


def _dice(*of: object) -> float:
    """A pseudo-random number from 0 to 1, always the same for the same arguments."""
    return zlib.crc32(repr(of).encode()) / 2**32


class _History:
    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = defaultdict(list)
        self._carriers: dict[str, int] = {}
        self._offsets: Counter[int] = Counter()
        self._free: dict[tuple[int, str], int] = {}
        self._stands: dict[int, int] = {}

    def add(self, row: Row) -> None:
        carrier, due = row["carrier"], row["due"]
        queue_id = self._carriers.setdefault(carrier, len(self._carriers) + 1)
        key = f"{carrier}{row['flight']}-{row['year']}-{row['month']}-{row['day']}"
        id_ = due << SEQUENCE_BITS | zlib.crc32(key.encode()) & 0xFFFFF
        accepted = due - 12 * _HOUR + round(_dice(key, "accepted") * _HOUR)
        names: Row = {"topic": carrier, "topic_id": queue_id}
        message: Row = {**names, "queue_id": queue_id, "id": id_, "key": key, "accepted_at": accepted}
        message |= {"deliver_at": due, "body": json.dumps({"to": row["dest"]}).encode()}
        if row["dep_time"] == "NA" and _dice(key, "cancelled") < 0.8:
            early = round(_dice(key, "early") * 6 * _HOUR)
            self.tables["cancelled"].append(message | {"cancelled_at": due - early})
            return
        streamed = due + round(2 + 30 * _dice(key, "streamed") ** 3)
        offset = self._offsets[queue_id]
        self._offsets[queue_id] += 1
        self.tables["messages"].append(message | {"offset": offset, "streamed_at": streamed})
        for number, group in enumerate(GROUPS):
            self._deliver(row, message | {"offset": offset}, streamed, group, 2 * queue_id + number)

    def _deliver(self, row: Row, message: Row, streamed: int, group: str, group_id: int) -> None:
        key, queue_id = message["key"], message["queue_id"]
        worker = round(_dice(key, group) * 5)
        at = max(streamed + 15, self._free.get((queue_id, group), 0))
        if group == "baggage":
            into_day = at % (24 * _HOUR)
            if 19 * _HOUR <= into_day < 21 * _HOUR:  # the belt stands still
                at += 21 * _HOUR - into_day
            if message["topic"] == "UA" and into_day < 4 * _HOUR:  # and its crew goes home early
                self._stands.setdefault(group_id, message["offset"])
                return
        late = 0 if row["dep_delay"] == "NA" else int(row["dep_delay"])
        past: list[Row] = []
        for attempt in range(1, len(_RUNGS) + 2):
            client = f"10.0.0.{worker + 11}-{4000 + worker}-{group}-1"
            hard = 0.02 + min(max(late, 0), 240) / 400 + 0.5 * (row["dep_time"] == "NA")
            if group == "baggage":
                took = round(800 + 45_000 * _dice(key, attempt, "took") ** 2)
                hard = 0.004
            else:
                took = round(150 + 4000 * _dice(key, attempt, "took") ** 4)
            outcome = "retried" if _dice(key, group, attempt) < hard else "acked"
            reason = _REASONS[int(_dice(key, attempt, "why") ** 1.6 * len(_REASONS))]
            if _dice(key, group, attempt, "lost") < (0.05 if worker == 3 else 0.002):
                outcome, took, reason = "lost", 60 * _SECOND, "lease lost"
            if attempt > len(_RUNGS) and outcome != "acked":
                outcome = "lost_dead" if outcome == "lost" else "dead"
            back: Row = {"queue_id": 1000 + group_id, "offset": self._offsets[1000 + group_id]} if attempt > 1 else {}
            self._offsets[1000 + group_id] += attempt > 1
            handed: Row = {
                "topic": message["topic"],
                "group": group,
                "group_id": group_id,
                "queue_id": queue_id,
                "offset": message["offset"],
                "message_queue_id": queue_id,
                "message_offset": message["offset"],
                "client": client,
                "attempt": attempt,
                "outcome": outcome,
                "claimed_at": at,
                "number": attempt,
                "settled_at": at + took,
                "history": json.dumps(past) if past else None,
                **back,
            }
            self.tables["deliveries"].append(handed)
            if attempt == 1:
                self._free[queue_id, group] = at + round(took / (4 if group == "baggage" else 20))
            if outcome == "acked":
                return
            past = [*past, {"at": at + took, "client": client, "reason": reason}]
            if outcome in ("dead", "lost_dead"):
                dead: Row = {"group": group, "group_id": group_id, "dead_at": at + took, "history": json.dumps(past)}
                self.tables["dead"].append(message | dead)
                return
            at += took + _RUNGS[attempt - 1] * _SECOND + round(20 + 60 * _dice(key, attempt))

    def finished(self) -> dict[str, list[Row]]:
        for carrier, queue_id in self._carriers.items():
            for number, group in enumerate(GROUPS):
                group_id = 2 * queue_id + number
                names: Row = {"topic": carrier, "group": group, "group_id": group_id, "queue_id": queue_id}
                self.tables["cursors"].append(names | {"position": self._stands.get(group_id, self._offsets[queue_id])})
        return dict(self.tables)


def main() -> None:
    from tarry.pipeline.report.job import make_report
    from tarry.pipeline.report.output import open_folder
    from tarry.pipeline.report.page import Known
    from tarry.pipeline.session import open_session

    folder = sys.argv[1]
    path = Path(sys.argv[2]) if len(sys.argv) > 2 else SAMPLE
    spark = open_session("flights", "local[2]")
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    tables = flight_tables(spark, flights(path))
    report = make_report(tables, Known(store=True, lake=None, now=NIGHT), title="Departures from New York")
    with open_folder(spark, folder) as place:
        print(report.write(place))


if __name__ == "__main__":
    main()
