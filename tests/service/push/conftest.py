"""An endpoint, and a node that posts to it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from support.office import Office
from support.receiver import Receiver, receiver
from tarry.service.metrics import Metrics
from tarry.service.push import breaker as breaker_file


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as there:
        yield there


@pytest.fixture
async def office(tmp_path: Path, there: Receiver, nursery: trio.Nursery) -> AsyncIterator[Office]:
    office = Office(tmp_path / "tarry.db", there, Metrics())
    nursery.start_soon(office.server.run)
    await office.server.ready.wait()
    await office.begin()
    yield office
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await office.node.store.backend.aclose()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes come soon."""
    monkeypatch.setattr(breaker_file, "_FIRST_REST", 0.05)
    monkeypatch.setattr(breaker_file, "_LONGEST_REST", 0.2)
