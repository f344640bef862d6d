"""The stretch of time of a report, and how it is cut."""

import pytest

from tarry.pipeline.report.window import DAY, HOUR, MINUTE, SECOND, Window, window_to_now

NOW = 1_769_860_800_000  # 2026-01-31T12:00:00Z


def test_a_window_without_an_end_ends_now_however_long_nothing_has_happened() -> None:
    first = NOW - 7 * HOUR - 123
    window = window_to_now(None, first, NOW)
    assert (window.until, window.is_now) == (NOW, True)
    assert window.since <= first < window.since + window.step
    assert window_to_now(NOW - DAY, first, NOW) == Window(NOW - DAY, NOW, is_now=True)


def test_without_anything_known_it_is_the_last_hour() -> None:
    assert window_to_now(None, None, NOW) == Window(NOW - HOUR, NOW, is_now=True)


def test_by_a_clock_that_is_behind_a_window_is_not_empty() -> None:
    assert window_to_now(None, NOW + DAY, NOW).length >= 1
    assert window_to_now(NOW + DAY, None, NOW).length == 1


@pytest.mark.parametrize(
    ("length", "cell"),
    [
        (50 * SECOND, 10 * SECOND),
        (10 * MINUTE, MINUTE),
        (55 * MINUTE, 5 * MINUTE),
        (6 * HOUR, 15 * MINUTE),
        (19 * HOUR, HOUR),
        (2 * DAY, HOUR),
        (7 * DAY, 2 * HOUR),
        (28 * DAY, 12 * HOUR),
    ],
)
def test_the_cells_of_a_heat_map_fit_the_window(length: int, cell: int) -> None:
    window = Window(NOW, NOW + length)
    assert window.cell == cell
    assert 1 < -(-length // window.cell) <= 100
