"""A share of a processor for each of some processes, by control groups of Linux: small machines on a larger one."""

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

GROUPS = Path("/sys/fs/cgroup")
_LEAST_US = 1_000
"""The least quota that Linux takes."""
_PERIOD_US = 4_000
"""Short: who has used up his quota stands still for the rest, and may hold locks meanwhile."""


@contextmanager
def shares(pids: Sequence[int], share: float | None, groups: Path = GROUPS) -> Generator[None, None, None]:
    """Each of the processes has so much of a processor at most, until the end; None is no limit. Raises `SystemExit`
    where there are no control groups of processors, or they are not to be written."""
    if share is None:
        yield
        return
    with ExitStack() as ends:
        try:
            top = _top(groups)
            for pid in pids:
                group = top / f"tarry-bench-{uuid4().hex[:12]}"
                group.mkdir()
                ends.callback(_dissolve, group)
                for name, value in limits(share, unified=top == groups).items():
                    (group / name).write_text(value)
                (group / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise SystemExit(f"a share of a processor wants control groups that may be written: {error}") from error
        yield


def limits(share: float, *, unified: bool) -> Mapping[str, str]:
    """What is written into which file of a group; `unified` is version 2. The weight is for that a process gets its
    share, whatever else there is on the machine."""
    period = max(_PERIOD_US, math.ceil(_LEAST_US / share))
    quota = round(period * share)
    if unified:
        return {"cpu.max": f"{quota} {period}", "cpu.weight": "10000"}
    return {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota), "cpu.shares": "65536"}


def _top(groups: Path) -> Path:
    """The folder whose subfolders are groups with limits. Raises `OSError`."""
    if (groups / "cgroup.controllers").exists():  # version 2
        (groups / "cgroup.subtree_control").write_text("+cpu")
        return groups
    if not (groups / "cpu" / "cpu.cfs_quota_us").exists():
        raise FileNotFoundError(f"{groups} has none of processors")
    return groups / "cpu"


def _dissolve(group: Path) -> None:
    """Its processes go to the top, where they have no limit of this bench's."""
    for pid in (group / "cgroup.procs").read_text().split():
        (group.parent / "cgroup.procs").write_text(pid)
    group.rmdir()
