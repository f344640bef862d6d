"""A claim's name outside leads back to its key, and nothing else does."""

from hypothesis import given
from hypothesis import strategies as st

from tarry.service.claim_ids import format_claim, parse_claim
from tarry.store.records import ClaimKey

NUMBERS = st.integers(0, 2**63 - 1)
IDS = st.integers(1, 2**32 - 1)


@given(st.builds(ClaimKey, IDS, IDS, NUMBERS, NUMBERS, NUMBERS))
def test_there_and_back(key: ClaimKey) -> None:
    assert parse_claim(format_claim(key)) == key


@given(st.text())
def test_anything_else_is_no_claim(name: str) -> None:
    key = parse_claim(name)
    assert key is None or parse_claim(format_claim(key)) == key


def test_numbers_beyond_the_store_are_no_claim() -> None:
    assert parse_claim(f"1-1-{2**63}-0-1") is None
    assert parse_claim("1-1-0-0-" + "f" * 16) is None
    assert parse_claim("1-1-0-0-1\n") is None
