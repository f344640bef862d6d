"""docs/guarantees.md: every promise has its part, and every test that it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/guarantees.md").read_text("utf-8")


def test_every_promise_is_there() -> None:
    assert re.findall(r"^## (I\d+):", TEXT, re.MULTILINE) == [f"I{number}" for number in range(1, 15)]


def test_each_says_what_tries_it_or_that_it_is_not_built() -> None:
    for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        if part.startswith("I"):
            assert ("**Tried by** `" in part) != ("Not built yet" in part), part.partition("\n")[0]


def test_every_test_named_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 30
    assert TEXT.count("::") == len(named)
    for path, name in named:
        source = (ROOT / "tests" / path).read_text("utf-8")
        assert re.search(rf"^ *(async def {name}\(|def {name}\(|{name} = )", source, re.MULTILINE), f"{path}::{name}"


def test_promises_of_the_stream_have_property_tests_that_were_seen_to_fail() -> None:
    for number in (1, 4, 5, 6, 7, 8, 10, 11, 12, 14):
        (part,) = re.findall(rf"^## I{number}:.*?(?=^## )", TEXT, re.MULTILINE | re.DOTALL)
        assert re.search(r"^\*\*Property tests?\*\* `store/", part, re.MULTILINE), number
        assert "Seen to fail when: " in part, number
