"""Durations that the client itself has to time."""

from datetime import timedelta

import pytest

from tarry.client.durations import Duration, milliseconds


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        (0, 0),
        (250, 250),
        ("250", 250),
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


@pytest.mark.parametrize("text", ["", "P", "PT", "ten", "10 m", "1y", "-5s"])
def test_refusals(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        milliseconds(text)
