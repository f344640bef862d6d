"""What an answer means."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.service.push.verdicts import LONGEST_REST, Verdict, verdict_of

NOW = 1_795_255_200_000
"""2026-11-21T10:00:00Z."""


def verdict(status: int, retry_after: str | None = None) -> Verdict:
    return verdict_of(status, {} if retry_after is None else {"retry-after": retry_after}, NOW)


KINDS = {
    "sent": (200, 204, 299),
    "failed": (301, 302, 304, 308, 400, 401, 404, 413),
    "gone": (410,),
    "away": (429, 500, 502, 503, 504, 599),
}


@pytest.mark.parametrize(("status", "kind"), [(status, kind) for kind, some in KINDS.items() for status in some])
def test_by_its_status(status: int, kind: str) -> None:
    assert verdict(status).kind == kind
    assert (str(status) in verdict(status).reason) == (kind != "sent")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("0", 1000),
        ("7", 7000),
        (" 120 ", 120_000),
        ("Sat, 21 Nov 2026 10:00:30 GMT", 30_000),
        ("Sat, 21 Nov 2026 09:00:00 GMT", 1000),
        ("99999999999999999999", LONGEST_REST),
        ("90000", LONGEST_REST),
        ("Sat, 21 Nov 2099 10:00:30 GMT", LONGEST_REST),
        ("Mon, 01 Jan 0001 00:00:00 GMT", 1000),
        ("0" * 60_000, 1000),
    ],
)
def test_it_says_when_to_come_again(status: int, text: str, rest: int) -> None:
    assert (verdict(status, text).kind, verdict(status, text).rest) == ("later", rest)


def test_a_date_without_a_zone_is_not_of_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert verdict(503, "Sat, 21 Nov 2026 10:00:30 -0000").rest == 30_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.slow
@given(
    st.integers(100, 999),
    st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,5} [0-9:]{0,9} ?[-+A-Z0-9]*"),
)
def test_whatever_it_says_is_some_verdict(status: int, text: str) -> None:
    found = verdict(status, text)
    assert (found.kind == "sent") == (200 <= status < 300)
    assert found.rest == 0 or (found.kind == "later" and 1000 <= found.rest <= LONGEST_REST)


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", "٣", "Sat, 99 Nov 2026", "1e3"])
def test_what_cannot_be_read_is_not_there(text: str) -> None:
    assert verdict(503, text).kind == "away"


def test_of_others_it_says_nothing() -> None:
    assert verdict(500, "7").kind == "away"
    assert verdict(404, "7").kind == "failed"
    assert verdict(200, "7").kind == "sent"


def test_a_redirect_is_told() -> None:
    assert "not followed" in verdict(307).reason
