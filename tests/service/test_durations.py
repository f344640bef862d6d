"""Durations and times: what is read, what is refused and with what words, and that nothing rounds down."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tarry.service.durations import (
    DURATION_PATTERN,
    MAX_DURATION,
    TIME_PATTERN,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
END_OF_2109 = 4_417_977_599_999


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        (0, 0),
        (1500, 1500),
        ("1500", 1500),
        ("250ms", 250),
        ("10s", 10 * SECOND),
        ("10m", 10 * MINUTE),
        ("48h", 48 * HOUR),
        ("2d", 2 * DAY),
        ("1w", 7 * DAY),
        ("1h30m", 90 * MINUTE),
        ("1w2d3h4m5s6ms", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5006),
        ("1.5h", 90 * MINUTE),
        ("0.0001s", 1),
        ("PT10M", 10 * MINUTE),
        ("P1DT2H", 26 * HOUR),
        ("P1W", 7 * DAY),
        ("PT0.5S", 500),
        ("PT0,5S", 500),
        ("PT36H", 36 * HOUR),
    ],
)
def test_a_duration_is_read(written: int | str, ms: int) -> None:
    assert parse_duration(written) == ms


def refused(table: dict[str, list[Any]]) -> list[tuple[Any, str]]:
    """Each of what is written, with the words that say what is wrong with it."""
    return [(written, words) for words, all_written in table.items() for written in all_written]


NO_DURATIONS: dict[str, list[Any]] = {
    "true and false": [True],
    "negative": [-1, "-10m", "-PT10M"],
    "no fixed length": ["P1M", "P1Y2M", "P1Y", "1y", "2 months"],
    "longer than": [10**16, "999999999999999w"],
    "is not a duration": [
        *["", "P", "PT", "P1DT", "P1MT1H", "10M", "30m1h", "1h1h"],
        *["10 m", "\uff110m", "10m\n", "1e3", "9" * 5000],
    ],
}


@pytest.mark.parametrize(("written", "words"), refused(NO_DURATIONS))
def test_what_is_not_a_duration_is_refused_and_says_why(written: int | str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        parse_duration(written)
    assert len(str(caught.value)) < 400


def test_a_number_too_long_to_print_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than"):
        parse_duration(10**5000)


@given(st.integers(0, MAX_DURATION))
def test_a_formatted_duration_reads_the_same(ms: int) -> None:
    assert parse_duration(format_duration(ms)) == ms


@given(st.integers(0, 10**8), st.integers(0, 10**9 - 1), st.sampled_from([("s", 1000), ("m", 60_000), ("h", HOUR)]))
def test_fractions_round_up(whole: int, billionths: int, unit: tuple[str, int]) -> None:
    exact = (whole + Fraction(billionths, 10**9)) * unit[1]
    ms = parse_duration(f"{whole}.{billionths:09}{unit[0]}")
    assert exact <= ms < exact + 1


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert parse_duration(text) >= 0


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-21T10:00:00Z", 1_795_255_200_000),
        ("2026-11-21t10:00:00z", 1_795_255_200_000),
        ("2026-11-21 10:00:00Z", 1_795_255_200_000),
        ("2026-11-21T12:00:00+02:00", 1_795_255_200_000),
        ("2026-11-21T04:30:00-05:30", 1_795_255_200_000),
        ("2026-11-21T10:00:00.5Z", 1_795_255_200_500),
        ("2026-11-21T10:00:00.0001Z", 1_795_255_200_001),
        ("2026-11-21T10:00:00.123000000Z", 1_795_255_200_123),
        ("2026-11-21T10:00:00.999999999Z", 1_795_255_201_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2017-01-01T01:59:60.7+02:00", 1_483_228_800_000),
        ("1969-12-31T23:59:59.5Z", -500),
        ("2109-12-31T23:59:59.999Z", END_OF_2109),
    ],
)
def test_a_time_is_read(written: str, ms: int) -> None:
    assert parse_time(written) == ms


NO_TIMES = {
    "add Z or an offset such as": ["2026-11-21T10:00:00", "2026-11-21T10:00:00.123"],
    "%2B": ["2026-11-21T10:00:00 02:00"],
    "offset": ["2026-11-21T10:00:00+24:00"],
    "is not a time": [
        *["2026-02-30T10:00:00Z", "2026-13-01T10:00:00Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+10:00"],
        *["2026-11-21T24:00:00Z", "2026-11-21T10:00:60Z", "2026-11-21T23:59:61Z"],
    ],
    "RFC 3339": [
        *["2026-11-21", "2026-11-21T10:00Z", "2026-11-21T10:00:00+0200", "now", ""],
        *["\uff12026-11-21T10:00:00Z", "2026-11-21T10:00:00Z\n"],
    ],
}


@pytest.mark.parametrize(("written", "words"), refused(NO_TIMES))
def test_what_is_not_a_time_is_refused_and_says_why(written: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_time(written)


@given(st.integers(0, END_OF_2109))
def test_a_formatted_time_reads_the_same(ms: int) -> None:
    text = format_time(ms)
    assert len(text) == len("2026-11-21T10:00:00.000Z")
    assert parse_time(text) == ms


@given(st.datetimes(datetime(1970, 1, 3), datetime(2109, 12, 30)), st.integers(-23 * 60 - 59, 23 * 60 + 59))
def test_a_time_is_the_oracles_rounded_up(local: datetime, offset: int) -> None:
    time = local.replace(tzinfo=timezone(timedelta(minutes=offset)))
    exact = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert parse_time(time.isoformat()) == -(-exact // 1000)


@pytest.mark.slow
@given(st.integers(0, END_OF_2109))
def test_the_text_is_the_oracles(ms: int) -> None:
    oracle = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03}Z"
    assert format_time(ms) == oracle


digits = st.sampled_from(["0", "1", "12", "1.5", "0,25"])
written = st.lists(st.one_of(digits, st.sampled_from([*"wdhms", "ms", *"PTWDHMS", " ", "-", "."])), max_size=8).map(
    "".join
)


@given(written)
@example("")
@example("P1W2DT3H4M5.5S")
@example("1w2d3h4m5s6ms")
@example("1m1m")
@example("1\n")
def test_the_pattern_of_durations_is_of_those_that_are_read(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError:
        assert text == "" or re.fullmatch(DURATION_PATTERN, text) is None
    else:
        assert re.fullmatch(DURATION_PATTERN, text)


@given(
    *(st.integers(0, most) for most in (9999, 14, 33, 25, 61, 62)),
    st.sampled_from(["", ".", ".5", "." + "0" * 31]),
    st.sampled_from(["Z", "z", "", "+01:00", "-23:59", "+24:00", "+01:60", "+1:00"]),
)
def test_the_pattern_of_times_is_of_those_that_are_read(
    year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: str, zone: str
) -> None:
    text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"
    matched = re.fullmatch(TIME_PATTERN, text) is not None
    try:
        parse_time(text)
    except ValueError:
        # What a calendar wants, and a leap second at the end of a day, is more than a pattern knows.
        assert not matched or second == 60 or day > 28 or year in (0, 1, 9999)
    else:
        assert matched
