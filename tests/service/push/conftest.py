"""An endpoint, and a node that posts to it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.office import Office, open_office
from support.receiver import Receiver, receiver
from tarry.service.push import breaker as breaker_file


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as there:
        yield there


@pytest.fixture
async def office(tmp_path: Path, there: Receiver) -> AsyncIterator[Office]:
    async with open_office(tmp_path / "tarry.db", there) as office:
        yield office


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes come soon."""
    monkeypatch.setattr(breaker_file, "_FIRST_REST", 0.05)
    monkeypatch.setattr(breaker_file, "_LONGEST_REST", 0.2)
