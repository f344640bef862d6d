"""How hard a test tries: as hard as is worth waiting for in `make test`, and with all it has in `make long`."""

import os

import pytest

_FULL = bool(os.environ.get("TARRY_TEST_FULL"))

full = pytest.mark.full
"""Of a test, or of a module as `pytestmark`, whose figures are of `tries`: `make long` runs it once more."""


def tries(some: int, whole: int) -> int:
    """`some` in `make test`, `whole` in `make long`."""
    return whole if _FULL else some
