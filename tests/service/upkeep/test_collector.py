"""The garbage collector's terms."""

import gc
from collections.abc import Iterator

import pytest

from tarry.service.upkeep.collector import still_collector, tame_collector


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.enable()
    gc.unfreeze()
    gc.set_threshold(*before)


def test_it_is_still_while_the_server_is_loaded_and_works_after() -> None:
    still_collector()
    assert not gc.isenabled()
    tame_collector()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 1000
    assert 5_000 <= gc.get_threshold()[0] <= 20_000, (
        "seldom in a crowd of requests, and each time for a few milliseconds"
    )
