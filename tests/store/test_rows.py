"""Rows as the server gave them, made into what they are."""

from typing import NamedTuple

from tarry.store.rows import read


class _Named(NamedTuple):
    id: int
    name: str | None


def test_text_that_somebody_else_has_spoilt_hides_no_other_row() -> None:
    """Bytes that are no UTF-8, and a column that was made text, which a server gives as such."""
    given = [(1, b"caf\xc3\xa9"), (2, b"\xff"), (3, "caf\u00e9"), (4, None)]
    assert read(_Named, given) == [(1, "caf\u00e9"), (2, "\ufffd"), (3, "caf\u00e9"), (4, None)]
