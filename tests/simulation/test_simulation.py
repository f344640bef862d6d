"""Two nodes on simulated time, over a database that delays, stalls, deadlocks and loses answers, under the load of the
fault campaign; and planted bugs that only the right interleaving shows."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
import structlog

from simulation.plants import PLANTS
from simulation.world import simulate

_SEEDS = 5
_TOGETHER = 50
_ALL = 2_000
_TRIES = 40


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silences the log, since failures in a simulation are intended."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield
    structlog.configure(**before)


def _judge(number: int, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    report = simulate(number, folder)
    assert not report.violations, f"seed {number}:\n" + "\n".join(one.told() for one in report.violations[:3])


@pytest.mark.parametrize("number", range(_SEEDS))
def test_promises_are_kept(number: int, tmp_path: Path) -> None:
    _judge(number, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, _ALL, _TOGETHER))
def test_promises_are_kept_by_many_more(first: int, tmp_path: Path) -> None:
    for number in range(first, first + _TOGETHER):
        _judge(number, tmp_path / str(number))


def test_a_seed_is_the_same_history_each_time(tmp_path: Path) -> None:
    histories: list[bytes] = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        simulate(4, folder)
        histories.append((folder / "history.jsonl").read_bytes())
    one, other = (history.splitlines() for history in histories)  # pytest takes minutes to compare them whole
    assert next((pair for pair in zip_longest(one, other) if pair[0] != pair[1]), None) is None


@pytest.mark.long
@pytest.mark.parametrize("what", PLANTS)
def test_a_planted_fault_is_found(what: str, tmp_path: Path) -> None:
    plant = PLANTS[what]
    for number in range(_TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = {violation.kind for violation in simulate(number, folder, plant).violations}
        if found.intersection(plant.kinds):
            return
    pytest.fail(f"{what}: it was found by no seed")
