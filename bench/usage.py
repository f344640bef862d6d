"""What another process uses, as the kernel counts it."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def cpu_of(pid: int) -> float:
    """Seconds of processor time that it has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_all(pids: Iterable[int]) -> float:
    """Seconds of processor time that these processes have taken; ended ones are left out."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            total += cpu_of(pid)
    return total


def rss_of(pid: int) -> int:
    """Bytes of memory that it has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def forget_peak(pid: int) -> None:
    """`peak_of` counts from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_of(pid: int) -> int:
    """The most bytes of memory that it has had."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def children_of(pid: int) -> list[int]:
    """The processes that it has started."""
    lists = [thread / "children" for thread in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for some in lists for child in some.read_text().split()]
