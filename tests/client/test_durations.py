"""Durations that the client itself has to time."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tarry.client import Tarry
from tarry.client.durations import Duration, duration_out, instant_in, instant_out, milliseconds, seconds
from tarry.service.durations import parse_duration


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        (0, 0),
        ("0", 0),
        ("250ms", 250),
        ("1.5s", 1500),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("PT10M", 600_000),
        ("P1DT2H", 93_600_000),
        ("PT0.5S", 500),
        (timedelta(microseconds=1), 1),
        (timedelta(days=1), 86_400_000),
    ],
)
def test_readings(duration: Duration, ms: int) -> None:
    assert milliseconds(duration) == ms
    assert parse_duration(duration_out(duration)) == ms, "as the server reads it"


@pytest.mark.parametrize("text", ["", "P", "PT", "ten", "10 m", "1y", "-5s"])
def test_refusals(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        milliseconds(text)


@pytest.mark.parametrize("number", [1800, 1800.5, -1, "1800", "1800.0"])
@pytest.mark.parametrize("read", [milliseconds, duration_out])
def test_a_bare_number_has_no_unit(read: Callable[..., object], number: Any) -> None:
    with pytest.raises(ValueError if isinstance(number, str) else TypeError) as refused:
        read(number, "delay")
    text = str(refused.value)
    assert text.startswith(f"delay: {number} has no unit")
    assert f'"{number}s" or timedelta(seconds={number})' in text


@pytest.mark.parametrize("other", [True, False, None, [1], 1j])
def test_other_things_are_no_durations(other: Any) -> None:
    with pytest.raises(TypeError, match=r'no duration: write "1800s" or timedelta\(seconds=1800\)'):
        milliseconds(other)


def test_every_duration_of_the_client_names_itself() -> None:
    """Before anything is sent: there is no server here."""
    with Tarry("http://127.0.0.1:9", deadline=0.0) as tarry:
        calls: dict[str, Callable[[Any], object]] = {
            "delay": lambda n: tarry.publish("t", 1, delay=n),
            "delay of many": lambda n: tarry.publish_many("t", [{"body": 1, "delay": n}]),
            "delay of a move": lambda n: tarry.reschedule("1", delay=n),
            "lease": lambda n: tarry.claim("t", "g", lease=n),
            "lease of a loop": lambda n: next(tarry.consume("t", "g", lease=n)),
            "lease of an extension": lambda n: tarry.extend("1", n),
            "wait": lambda n: tarry.claim("t", "g", wait=n),
            "wait of a loop": lambda n: next(tarry.consume("t", "g", wait=n)),
            "wait of a pull": lambda n: tarry.pull("t", wait=n),
            "retry_after": lambda n: tarry.fail("1", retry_after=n),
            "drain": lambda n: tarry.run("t", "g", print, drain=n),
            "width": lambda n: tarry.upcoming("t", width=n),
            "retention": lambda n: tarry.put_topic("t", retention=n),
            "ladder": lambda n: tarry.put_group("t", "g", ladder=["1s", n]),
        }
        for name, call in calls.items():
            for number in (1800, 1.5):
                with pytest.raises(TypeError, match=f"^{name.split()[0]}: {number} has no unit"):
                    call(number)


def test_time_outs_are_seconds_or_durations() -> None:
    assert [seconds(one, "timeout") for one in (2, 0.5, "2s", "500ms", timedelta(minutes=1))] == [2, 0.5, 2, 0.5, 60]
    with pytest.raises(ValueError, match=r'^timeout: 2 has no unit: write "2s"'):
        seconds("2", "timeout")


def test_a_day_is_no_moment() -> None:
    at: Any = date(2030, 1, 1)
    with pytest.raises(
        TypeError, match=r"^deliver_at: an object of type date does not say which moment: write a datetime with a zone"
    ):
        instant_out(at)
    number: Any = 1_900_000_000
    with pytest.raises(TypeError, match=r"^start: an object of type int does not say which moment"):
        instant_out(number, "start")


@pytest.mark.parametrize("year", [1, 999, 1969, 1970, 9999])
def test_a_moment_of_any_year_is_written_as_rfc_3339_wants_it(year: int) -> None:
    at = datetime(year, 2, 3, 4, 5, 6, 7000, tzinfo=UTC)
    assert instant_out(at) == f"{year:04}-02-03T04:05:06.007Z"
    assert instant_in(instant_out(at)) == at
