"""Text of others on a terminal."""

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.store.printable import json_text, visible

ANY = st.text(st.characters(codec=None))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)
)
TURNS = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_obeyed(text: str) -> bool:
    return any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in TURNS for character in text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b2J", r"\x9b2J"),
        ("a\tb\r\nc\0\x7f", r"a\tb\r\nc\x00\x7f"),
        ("\u202ereversed", r"\u202ereversed"),
        ("half \ud83d", r"half \ud83d"),
        ("Grüße, 東京 👩‍👩‍👧", "Grüße, 東京 👩‍👩‍👧"),
    ],
)
def test_what_a_terminal_obeys_is_told(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_line_ends_of_our_own_are_kept() -> None:
    assert visible("one\n\x1btwo", keep="\n\t") == "one\n\\x1btwo"


@given(ANY)
def test_nothing_is_left_to_be_obeyed(text: str) -> None:
    assert not is_obeyed(visible(text))
    visible(text).encode()


@pytest.mark.slow
@given(JSON)
def test_json_stays_the_same_json(value: Any) -> None:
    line = json_text(value)
    assert not is_obeyed(line)
    assert json.loads(line) == value
