"""How fast is a year of real flights scheduled, the cancelled ones cancelled and the late ones rescheduled?

    python -m tarry.bench.flights --data flights-2013.csv.zip --dsn mysql://root@127.0.0.1:3306/any [--rows 10000]

All flights that left New York City in 2013 (336,776, nycflights13), as the demo reads them: a message each, due at the
planned departure, moved by a whole number of days so that the first lies at least a day ahead. A real server in a
process of its own; everything goes through the client over HTTP, from threads that each have a client:

    scheduled      `publish_many`, 1000 flights to a batch, which is one transaction
    cancels        a call for each flight that did not leave (`dep_time` is NA)
    reschedules    a call for each that left more than 15 minutes late, to when it left
    baseline       `executemany` of PyMySQL (on SQLite of sqlite3) of the same flights into a bare table with an id, the
                   due time, the key and the body, 1000 to a commit, on one connection: no server, no index, no answers

Both make their bodies' JSON within the time. They alternate, run after run, each on an empty database; the ratio is
within each run. Every count is held against the file's own: the answers, the counts that the server tells, and after it
has ended the rows and the sum of the due times in its tables. A wrong one ends it with exit code 1.
"""

import csv
import io
import json
import time
import zipfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

from attrs import frozen

from ..client import Draft, NotFound, Tarry
from ..client.errors import Conflict
from ..store.sqlite.connection import connect as connect_sqlite
from . import databases
from .report import Figures, chosen, ratios, say, spreads, summarize
from .subject import now, served

TOPIC = "departures"

_PAGE = 1000
_LATE = 15
"""Minutes; who leaves later is rescheduled."""
_DAY = 24 * 3600 * 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_RATES = ("scheduled_per_s", "baseline_per_s", "cancels_per_s", "reschedules_per_s")

T = TypeVar("T")


@frozen
class Flight:
    """A planned departure, and what became of it. Times are Unix milliseconds."""

    key: str
    """Carrier, number and date. In the whole year 24 of them occur twice; a key need not be unique."""
    tailnum: str | None
    planned: int
    left: int | None
    """When it left, if that was late enough for a reschedule."""
    cancelled: bool
    body: dict[str, str]


def main() -> None:
    parser = databases.options("flights", __doc__, runs=5)
    parser.add_argument("--data", type=Path, required=True, help="the year's flights: the CSV, or a zip that holds it")
    parser.add_argument("--rows", type=databases.count, help="only the first so many flights")
    parser.add_argument("--publishers", type=databases.count, default=2, help="threads that publish")
    parser.add_argument("--callers", type=databases.count, default=16, help="threads that cancel and reschedule")
    arguments = parser.parse_args()
    if not arguments.data.is_file():
        parser.error(f"there is no file {arguments.data}")
    say(f"reading {arguments.data}")
    flights = read(arguments.data, arguments.rows)
    contestants: dict[str, Callable[[str], Figures]] = {
        "baseline": lambda empty: {"baseline_per_s": insert_bare(empty, flights)},
        "tarry": lambda empty: measure(empty, flights, arguments.publishers, arguments.callers),
    }
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        found = databases.alternate(dsn, "flights", arguments.runs, contestants)
    rates = [{name: (run["baseline"] | run["tarry"])[name] for name in _RATES} for run in found]
    summarize(
        "flights",
        rows=len(flights),
        **chosen(arguments, "publishers", "callers", "runs"),
        **settings,
        **spreads(rates),
        times_the_baseline=ratios(rates, "scheduled_per_s", "baseline_per_s"),
    )


def read(path: Path, rows: int | None) -> list[Flight]:
    """The flights in the order of the file."""
    with ExitStack() as stack:
        if zipfile.is_zipfile(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            (name,) = (name for name in archive.namelist() if name.endswith(".csv"))
            file = stack.enter_context(archive.open(name))
        else:
            file = stack.enter_context(path.open("rb"))
        text = io.TextIOWrapper(file, "utf-8", newline="")
        flights = [_flight(row) for row in islice(csv.DictReader(text), rows)]
    if not flights:
        raise SystemExit(f"there are no flights in {path}")
    return flights


def _flight(row: Mapping[str, str]) -> Flight:
    """As the demo's, lean enough for a year. `time_hour` is the planned hour in UTC, daylight saving included."""
    moment = datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["sched_dep_time"]) % 100)
    planned = (moment - _EPOCH) // _MILLISECOND
    cancelled = row["dep_time"] == "NA"
    late = 0 if cancelled else int(row["dep_delay"])
    number = intern(f"{row['carrier']}{row['flight']}")
    return Flight(
        key=f"{number}-{row['year']}-{int(row['month']):02}-{int(row['day']):02}",
        tailnum=None if row["tailnum"] == "NA" else intern(row["tailnum"]),
        planned=planned,
        left=planned + late * 60_000 if late > _LATE else None,
        cancelled=cancelled,
        body={
            "flight": number,
            "from": intern(row["origin"]),
            "to": intern(row["dest"]),
            "planned": moment.isoformat().replace("+00:00", "Z"),
        },
    )


def insert_bare(dsn: str, flights: Sequence[Flight]) -> int:
    """The baseline: flights a second into a table of their own, and nothing else done."""
    insert = _insert_bare_sqlite if dsn.startswith(databases.SQLITE) else _insert_bare_mysql
    took = insert(dsn, flights)
    databases.expect_rows(dsn, "bare", len(flights))
    return round(len(flights) / took)


def _insert_bare_mysql(dsn: str, flights: Sequence[Flight]) -> float:
    with databases.log_in(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE bare (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, due BIGINT NOT NULL,"
            " `key` VARBINARY(255) NOT NULL, body BLOB NOT NULL) ENGINE=InnoDB"
        )
        cursor.execute("SET autocommit = 0")
        began = time.perf_counter()
        for start in range(0, len(flights), _PAGE):
            rows = _rows(flights[start : start + _PAGE])
            cursor.executemany("INSERT INTO bare (due, `key`, body) VALUES (%s, %s, %s)", rows)
            connection.commit()
        return time.perf_counter() - began


def _insert_bare_sqlite(dsn: str, flights: Sequence[Flight]) -> float:
    # The store's own settings: a commit means the same on both sides.
    with closing(connect_sqlite(Path(dsn.removeprefix(databases.SQLITE)))) as connection:
        connection.execute(
            "CREATE TABLE bare (id INTEGER PRIMARY KEY AUTOINCREMENT, due INTEGER NOT NULL, key BLOB NOT NULL,"
            " body BLOB NOT NULL)"
        )
        began = time.perf_counter()
        for start in range(0, len(flights), _PAGE):
            connection.execute("BEGIN")
            rows = _rows(flights[start : start + _PAGE])
            connection.executemany("INSERT INTO bare (due, key, body) VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
        return time.perf_counter() - began


def _rows(flights: Sequence[Flight]) -> list[tuple[int, bytes, bytes]]:
    return [(flight.planned, flight.key.encode(), json.dumps(flight.body).encode()) for flight in flights]


def measure(dsn: str, flights: Sequence[Flight], publishers: int, callers: int) -> Figures:
    """The whole schedule against a server of its own, and every count held against the file's."""
    with served(dsn, log_level="warning") as server:
        schedule = Schedule(server.url, flights, ahead(flights))
        took = schedule.publish(publishers) | schedule.cancel(callers) | schedule.reschedule(callers)
        with Tarry(server.url) as tarry:
            topic = tarry.topic(TOPIC)
    answers = schedule.answers
    compare(
        expected(flights, schedule.later),
        {**answers, **{f"topic's {name}": topic[name] for name in TOPIC_COUNTS}, **rows_of(dsn)},
    )
    rates = {f"{what}_per_s": round(count / seconds) for what, (count, seconds) in took.items()}
    return {"rows": len(flights), "cancelled": answers["cancelled"], "rescheduled": answers["rescheduled"], **rates}


def ahead(flights: Sequence[Flight]) -> int:
    """Whole days, in milliseconds, after which the first flight is due at least a day from now."""
    first = min(flight.planned for flight in flights)
    return -((first - now() - _DAY) // _DAY) * _DAY


class Schedule:
    """The year, on one server. Each step says how many it did and how many seconds that took."""

    def __init__(self, url: str, flights: Sequence[Flight], later: int) -> None:
        self._url = url
        self._flights = flights
        self.later = later
        self._ids: dict[int, str] = {}
        """By the flight's place in the file; threads fill it."""
        self.answers: dict[str, int] = {}
        """How many were answered as they should be."""

    def publish(self, threads: int) -> dict[str, tuple[int, float]]:
        """Every flight for its planned departure, in batches."""

        def publish(tarry: Tarry, start: int) -> int:
            flights = self._flights[start : start + _PAGE]
            receipts = tarry.publish_many(TOPIC, [self._draft(flight) for flight in flights])
            self._ids.update((start + number, receipt.id) for number, receipt in enumerate(receipts))
            return sum(
                receipt.deliver_at == self._moment(flight.planned) and not receipt.replayed
                for flight, receipt in zip(flights, receipts, strict=True)
            )

        pages = range(0, len(self._flights), _PAGE)
        self.answers["published"], seconds = in_threads(self._url, threads, pages, publish, "scheduling")
        return {"scheduled": (len(self._flights), seconds)}

    def cancel(self, threads: int) -> dict[str, tuple[int, float]]:
        """Those that did not leave, one call each."""

        def cancel(tarry: Tarry, number: int) -> int:
            try:
                return tarry.cancel(self._ids[number]) == "cancelled"
            except (Conflict, NotFound):
                return 0

        numbers = [number for number, flight in enumerate(self._flights) if flight.cancelled]
        self.answers["cancelled"], seconds = in_threads(self._url, threads, numbers, cancel, "cancelling")
        return {"cancels": (len(numbers), seconds)}

    def reschedule(self, threads: int) -> dict[str, tuple[int, float]]:
        """Those that left late, one call each."""

        def reschedule(tarry: Tarry, flight: tuple[int, int]) -> int:
            number, left = flight
            try:
                answer = tarry.reschedule(self._ids[number], deliver_at=self._moment(left))
            except (Conflict, NotFound):
                return 0
            return answer.deliver_at == self._moment(left)

        late = [(number, flight.left) for number, flight in enumerate(self._flights) if flight.left is not None]
        self.answers["rescheduled"], seconds = in_threads(self._url, threads, late, reschedule, "rescheduling")
        return {"reschedules": (len(late), seconds)}

    def _draft(self, flight: Flight) -> Draft:
        return Draft(
            body=flight.body,
            key=flight.key,
            ordering_key=flight.tailnum,
            headers={"carrier": flight.key[:2]},
            deliver_at=self._moment(flight.planned),
        )

    def _moment(self, unix: int) -> datetime:
        return _EPOCH + (unix + self.later) * _MILLISECOND


def in_threads(
    url: str, threads: int, things: Sequence[T], act: Callable[[Tarry, T], int], doing: str
) -> tuple[int, float]:
    """The sum of what `act` returns for all things, and the seconds that took; the first error ends it all."""
    waiting = deque(things)

    def work(tarry: Tarry) -> int:
        total = 0
        try:
            while waiting:
                try:
                    thing = waiting.popleft()
                except IndexError:  # another thread had the last one
                    break
                total += act(tarry, thing)
        except BaseException:
            waiting.clear()
            raise
        return total

    with ExitStack() as stack:
        tarries = [stack.enter_context(Tarry(url)) for _ in range(threads)]
        for tarry in tarries:
            tarry.ready()  # connects
        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(work, tarry) for tarry in tarries]
            while wait(futures, 0.5).not_done:
                say(f"{doing}, {len(things) - len(waiting)} of {len(things)}")
        took = time.perf_counter() - began
    return sum(future.result() for future in futures), took


TOPIC_COUNTS = ("accepted", "cancelled", "pending", "streamed")
ROW_COUNTS = {
    "rows in delay": "SELECT COUNT(*) FROM delay",
    "sum of due times": "SELECT SUM(due) FROM delay",
    "rows in moved": "SELECT COUNT(*) FROM moved",
    "rows in cancelled": "SELECT COUNT(*) FROM cancelled",
    "rows in message": "SELECT COUNT(*) FROM message",
}


def expected(flights: Sequence[Flight], later: int) -> dict[str, int]:
    """Every count, by the file alone."""
    total, cancelled = len(flights), sum(flight.cancelled for flight in flights)
    dues = [(flight.left or flight.planned) + later for flight in flights if not flight.cancelled]
    return {
        "published": total,
        "cancelled": cancelled,
        "rescheduled": sum(flight.left is not None for flight in flights),
        "topic's accepted": total,
        "topic's cancelled": cancelled,
        "topic's pending": total - cancelled,
        "topic's streamed": 0,
        "rows in delay": total - cancelled,
        "sum of due times": sum(dues),
        "rows in moved": sum(flight.left not in (None, flight.planned) for flight in flights),
        "rows in cancelled": cancelled,
        "rows in message": 0,
    }


def rows_of(dsn: str) -> dict[str, int]:
    """The same counts, in the store's own tables; the sum of no rows is NULL."""
    return {name: int(databases.ask(dsn, sql)[0][0] or 0) for name, sql in ROW_COUNTS.items()}


def compare(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Ends the bench when any count is not the file's."""
    wrong = [
        f"{name} {found.get(name)} instead of {count}" for name, count in wanted.items() if found.get(name) != count
    ]
    if wrong:
        raise SystemExit(f"wrong counts: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
