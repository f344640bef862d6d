"""What the bench of the year reads and counts. That it runs is in test_bench_smoke.py."""

import time
from pathlib import Path

import pytest

from tarry.bench.flights import ahead, compare, expected, read

SAMPLE = Path(__file__).resolve().parents[2] / "service" / "demo" / "sample" / "flights-2013-11-27.csv"
DAY = 24 * 3600 * 1000


def test_the_file_is_read_as_planned_in_utc() -> None:
    flights = read(SAMPLE, None)
    assert len(flights) == 1014
    assert flights[0].key == "EV5769-2013-11-27"
    assert flights[0].body["planned"] == "2013-11-28T00:30:00Z"
    assert flights[0].left == flights[0].planned + 298 * 60_000
    assert flights[1].left is None  # 5 minutes late
    assert flights[-1].cancelled


def test_due_times_move_by_whole_days_until_the_first_is_a_day_ahead() -> None:
    flights = read(SAMPLE, 10)
    before = time.time_ns() // 1_000_000
    later = ahead(flights)
    after = time.time_ns() // 1_000_000
    assert later % DAY == 0
    first = min(flight.planned for flight in flights) + later
    assert before + DAY <= first < after + 2 * DAY


def test_every_wrong_count_ends_the_bench() -> None:
    wanted = expected(read(SAMPLE, None), DAY)
    compare(wanted, wanted)
    for name in wanted:
        with pytest.raises(SystemExit, match=f"^wrong counts: {name} "):
            compare(wanted, wanted | {name: wanted[name] - 1})
        with pytest.raises(SystemExit, match=f"^wrong counts: {name} None "):
            compare(wanted, {other: count for other, count in wanted.items() if other != name})
