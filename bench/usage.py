"""What another process uses, as the kernel counts it."""

import os
from pathlib import Path


def cpu_of(pid: int) -> float:
    """Seconds of processor time that it has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_of(pid: int) -> int:
    """Bytes of memory that it has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
