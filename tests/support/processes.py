"""Finds the descendants of a process in /proc, so that tests can kill them by their ids."""

import os
from collections.abc import Iterator
from pathlib import Path


def below(pid: int) -> Iterator[tuple[int, str]]:
    """(id, command line) of every process that this one started, and of those that they started."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has ended meanwhile
        parents.setdefault(parent, []).append(int(place.name))
    todo = list(parents.get(pid, ()))
    while todo:
        child = todo.pop()
        todo += parents.get(child, ())
        yield child, _command(child)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def is_there(pid: int) -> bool:
    """Whether the process is alive; a zombie is not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
