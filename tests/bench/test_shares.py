"""A share of a processor for a server under measurement, and what the database did for a message."""

import os
from pathlib import Path

import pytest

from tarry.bench.database_work import of_messages
from tarry.bench.shares import limits, shares


@pytest.mark.parametrize(
    ("share", "period", "quota"), [(0.25, 4000, 1000), (0.5, 4000, 2000), (1.5, 4000, 6000), (0.1, 10000, 1000)]
)
def test_no_quota_is_below_what_linux_takes(share: float, period: int, quota: int) -> None:
    first, second = limits(share, unified=False), limits(share, unified=True)
    assert (first["cpu.cfs_period_us"], first["cpu.cfs_quota_us"]) == (str(period), str(quota))
    assert second["cpu.max"] == f"{quota} {period}"


def test_where_there_are_no_control_groups_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="control groups"), shares([os.getpid()], 0.5, tmp_path):
        pass


def test_without_a_share_nothing_is_asked_of_the_kernel(tmp_path: Path) -> None:
    with shares([os.getpid()], None, tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_figures_are_of_messages() -> None:
    gained = {"commits": 40, "row_lock_waits": 10, "row_lock_wait_ms": 55}
    figures = of_messages(gained, 2000)
    assert figures == {"messages_to_a_commit": 50.0, "row_lock_waits": 5.0, "row_lock_wait_ms": 27.5}
