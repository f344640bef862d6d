"""Numbers as people read them."""

from datetime import UTC, datetime

import pytest

from tarry.pipeline.report import words
from tarry.pipeline.report.window import DAY, HOUR, MINUTE, SECOND, step_of
from tarry.pipeline.times import parse_time


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, words.NOTHING),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1240, "1.2 s"),
        (9949, "9.9 s"),
        (9950, "10 s"),
        (59_949, "60 s"),
        (59_950, "1 min"),
        (4 * MINUTE + 5 * SECOND, "4 min 5 s"),
        (59 * MINUTE + 59_600, "1 h"),
        (2 * HOUR + 10 * MINUTE, "2 h 10 min"),
        (DAY - 1, "1 d"),
        (3 * DAY + 4 * HOUR, "3 d 4 h"),
        (-5, "-5 ms"),
    ],
)
def test_durations(ms: int | None, text: str) -> None:
    assert words.duration(ms) == text


def test_counts_and_shares() -> None:
    assert words.count(1234567) == "1,234,567"
    assert words.short_count(1234567) == "1.23 M"
    assert [words.share(part) for part in (0.5, 0.001, 0.0996, None)] == ["50 %", "0.1 %", "10 %", words.NOTHING]
    assert [words.share(part, signed=True) for part in (0.5, -0.001)] == ["+50 %", "-0.1 %"]


def test_names_are_cut_where_there_is_no_room() -> None:
    assert words.clipped("order-events", 12) == "order-events"
    assert words.clipped("order-events", 8) == "order-e…"


def test_a_window_is_cut_into_usual_steps() -> None:
    assert step_of(HOUR) == MINUTE
    assert step_of(DAY) == 15 * MINUTE
    assert step_of(7 * DAY) == 2 * HOUR
    assert step_of(365 * DAY) == 7 * DAY
    assert step_of(40_000 * DAY) * 100 >= 40_000 * DAY
    assert step_of(HOUR, 36) == 5 * MINUTE


def test_times_are_rfc_3339() -> None:
    moment = round(datetime(2026, 1, 31, 11, tzinfo=UTC).timestamp() * 1000)
    assert parse_time("2026-01-31T12:00:00+01:00", "--from") == moment
    assert parse_time("2026-01-31t11:00:00.001z", "--from") == moment + 1
    for bad in ("2026-01-31", "2026-01-31T12:00:00", "yesterday", "2026-02-31T12:00:00Z", "٢٠٢٦-01-31T12:00:00Z"):
        with pytest.raises(ValueError, match="--from: "):
            parse_time(bad, "--from")
