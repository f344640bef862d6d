"""Where half of a surrogate pair stands alone: as a reader of the whole finds it, and without making the whole."""

import json
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.service.http.surrogates import pointer_to_lone

texts = st.sampled_from(
    ['"a"', '""', '"\\ud83d\\ude00"', '"b\\\\ud800"', '"x\\"y"', '"é"', '"\\ud800"', '"\\udc00x"', '"\\ud800\\u0041"']
)
names = st.sampled_from(['"a"', '"b/~"', '"\\u00e9"', '"c"', '"\\ud800k"'])
blanks = st.sampled_from(["", " ", "\n "])
documents = st.recursive(
    st.one_of(texts, st.sampled_from(["1", "-2.5e3", "true", "null", "[]", "{}"])),
    lambda inner: st.one_of(
        st.tuples(blanks, st.lists(inner, max_size=4)).map(lambda one: f"[{f'{one[0]},'.join(one[1])}]"),
        st.tuples(blanks, st.lists(st.tuples(names, inner), max_size=4)).map(
            lambda one: "{" + f",{one[0]}".join(f"{name}{one[0]}:{one[0]}{value}" for name, value in one[1]) + "}"
        ),
    ),
    max_leaves=20,
)


def is_lone(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def faults(value: object, pointer: str = "") -> Iterator[str]:
    """In the order of the text; objects are lists of pairs in a tuple."""
    if isinstance(value, str) and is_lone(value):
        yield pointer
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from faults(item, f"{pointer}/{index}")
    elif isinstance(value, tuple):
        for name, field in value:
            if is_lone(name):
                yield pointer
            yield from faults(field, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")


@pytest.mark.slow
@given(documents)
def test_the_first_of_the_text(text: str) -> None:
    whole = json.loads(text, object_pairs_hook=tuple)
    assert pointer_to_lone(text.encode()) == next(faults(whole), None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        '["\\ud800',
        '["\\ud83d\\',
        '["\\ud83d\\ude',
        '{x "\\ud800"}',
        "[\\ud800]",
        '] "\\ud800"',
        '[1 "\\ud800"]',
    ],
)
def test_what_is_wrong_otherwise(text: str) -> None:
    assert pointer_to_lone(text.encode()) is None


def nested(depth: int, name: str, inside: str) -> str:
    for _ in range(depth):
        inside = f'{{"{name}":{inside}}}'
    return inside


LARGE = {
    "deep names": nested(180, "~" * 100, "[" + "0," * 15_000 + '"\\ud800"]'),
    "numbers": "[" + "0," * 100_000 + '"\\ud800"]',
    "texts": "[" + '"",' * 100_000 + '"\\ud800"]',
    "lists": "[" + "[]," * 100_000 + '"\\ud800"]',
    "fields": "{" + '"":0,' * 50_000 + '"":"\\ud800"}',
    "escapes": '["' + "\\n" * 100_000 + '\\ud800"]',
    "depth": "[" * 200_000 + '"\\ud800"',
}


@pytest.mark.parametrize("name", LARGE)
def test_nothing_is_made_of_what_is_beside_the_way(name: str) -> None:
    """The one message of a fault has a pointer that somebody can read, and it takes a few times the text's bytes."""
    data = LARGE[name].encode()
    tracemalloc.start()
    try:
        pointer = pointer_to_lone(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(pointer or "") < 8_000
    assert peak < 4 * len(data) + (20 << 20 if name == "depth" else 1 << 20)
