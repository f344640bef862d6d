"""A client that is forked: each process gets the answers to its own calls, and what one began is its own to end."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from support import forked, forked_loop
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess, python_path

COUNT = 50


def run(script: Any, *arguments: str) -> list[Any]:
    """What it printed, a line of JSON after the other."""
    command = [sys.executable, "-W", "error", str(script.__file__), *arguments]
    done = subprocess.run(
        command, env=os.environ | python_path(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("kind", ["threads", "asyncio", "trio"])
@pytest.mark.cases(1)
def test_each_process_has_the_receipts_of_its_own_messages(server: ServerProcess, tarry: Tarry, kind: str) -> None:
    child, parent = run(forked, server.url, kind, str(COUNT))
    assert len(child) == COUNT
    assert len(parent) == (0 if kind == "asyncio" else COUNT)
    assert [[id_, tarry.message(id_)["body"]] for id_, _ in child + parent] == child + parent


def test_a_loop_belongs_to_the_process_that_began_it(server: ServerProcess, tarry: Tarry) -> None:
    """The child cannot go on with it, settles nothing of it, and its end does not end it."""
    (loop, lent, child), (seen, parent) = run(forked_loop, server.url)
    assert "call consume in the process that handles" in loop
    assert "after the fork" in lent
    assert not set(child) & set(parent)
    assert seen == [[n, 1] for n in range(20)]
    group = tarry.group("looped", "g")
    assert (group["acked"], group["retried"], group["backlog"]) == (20, 0, 0)
