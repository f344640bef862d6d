"""The demo's flights: those planned out of New York on 27 November 2013. See sample/README.md."""

import csv
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

from attrs import frozen

_DAY = "flights-2013-11-27.csv"


@frozen
class Flight:
    """A planned departure, and what became of it."""

    key: str
    """Carrier, number and date; unique."""
    tailnum: str | None
    planned: datetime
    """UTC."""
    late: timedelta | None
    """How much later than planned it left; None: on time or early."""
    cancelled: bool
    body: dict[str, Any]


def load_day() -> list[Flight]:
    """The flights in the order of their planned departures."""
    text = files(__package__ or "").joinpath("sample", _DAY).read_text("utf-8")
    flights = [_flight(row) for row in csv.DictReader(text.splitlines())]
    return sorted(flights, key=lambda flight: (flight.planned, flight.key))


def _flight(row: dict[str, str]) -> Flight:
    minutes = int(row["sched_dep_time"]) % 100
    planned = datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=minutes)
    cancelled = row["dep_time"] == "NA"
    delay = 0 if cancelled else int(row["dep_delay"])
    number = f"{row['carrier']}{row['flight']}"
    date = f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}"
    return Flight(
        key=f"{number}-{date}",
        tailnum=None if row["tailnum"] == "NA" else row["tailnum"],
        planned=planned,
        late=timedelta(minutes=delay) if delay > 0 else None,
        cancelled=cancelled,
        body={
            "flight": number,
            "from": row["origin"],
            "to": row["dest"],
            "planned": planned.isoformat().replace("+00:00", "Z"),
        },
    )
