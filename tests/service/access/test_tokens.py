"""The text of a key."""

import hashlib
import re

from tarry.service.access.tokens import digest, is_token, make_token


def test_each_is_new_and_can_be_recognised() -> None:
    tokens = {make_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(re.fullmatch("tarry_[A-Za-z0-9_-]{43}", token) and is_token(token.encode()) for token in tokens)


def test_what_is_kept() -> None:
    assert digest("tarry_x") == digest(b"tarry_x") == hashlib.sha256(b"tarry_x").digest()


def test_what_is_none() -> None:
    for text in (b"", b"tarry_", b"tarry_" + b"x" * 42, b"tarry_" + b"x" * 44, b"Tarry_" + b"x" * 43):
        assert not is_token(text)
