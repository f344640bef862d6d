"""A claim's name outside leads back to its key, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.store.groups.claim_ids import RANGES, format_claim, parse_claim
from tarry.store.records import ClaimKey

NUMBERS = st.integers(0, 2**63 - 1)
IDS = st.integers(1, 2**32 - 1)


@given(st.builds(ClaimKey, IDS, IDS, NUMBERS, NUMBERS, NUMBERS), st.sets(st.tuples(IDS, NUMBERS, NUMBERS), max_size=5))
def test_there_and_back(key: ClaimKey, ranges: set[tuple[int, int, int]]) -> None:
    others = [ClaimKey(key.group_id, *place, key.token) for place in ranges]
    keys = (key, *(other for other in others if other != key))
    assert parse_claim(format_claim(*keys)) == keys


@pytest.mark.slow
@given(st.text() | st.from_regex(r"[0-9]-[0-9]-[0-9]-[0-9]-[0-9a-f](\.[0-9]-[0-9]-[0-9]){0,3}", fullmatch=True))
def test_anything_else_is_no_claim(name: str) -> None:
    keys = parse_claim(name)
    assert not keys or format_claim(*keys) == name


def test_numbers_beyond_the_store_are_no_claim() -> None:
    assert parse_claim(f"1-1-{2**63}-0-1") == ()
    assert parse_claim("1-1-0-0-" + "f" * 16) == ()
    assert parse_claim("1-1-0-0-1\n") == ()
    assert parse_claim(f"1-1-0-0-1.2-{2**63}-0") == ()


def test_a_name_has_a_range_once_and_so_many_ranges() -> None:
    assert parse_claim("1-1-0-0-1.1-0-0") == ()
    name = "1-1-0-0-1" + "".join(f".{queue}-0-0" for queue in range(2, RANGES + 1))
    assert len(parse_claim(name)) == RANGES
    assert parse_claim(name + ".1000-0-0") == ()
