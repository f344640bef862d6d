"""The text of a key."""

import hashlib
import re

from tarry.service.access.tokens import digest, make_token


def test_each_is_new_and_can_be_recognised() -> None:
    tokens = {make_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(re.fullmatch("tarry_[A-Za-z0-9_-]{43}", token) for token in tokens)


def test_what_is_kept() -> None:
    assert digest("tarry_x") == digest(b"tarry_x") == hashlib.sha256(b"tarry_x").digest()
