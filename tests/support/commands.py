"""Commands of `tarry` within this process: as processes of their own some tests and the documents' have them."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from support.servers import free_port
from tarry.service.cli.app import run


def command(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """What it says to a server, and nobody at the keyboard."""
    with (
        pytest.MonkeyPatch.context() as here,
        redirect_stdout(io.StringIO()) as said,
        redirect_stderr(io.StringIO()) as told,
    ):
        here.setenv("TARRY_URL", url)
        here.setattr(sys, "stdin", io.StringIO())
        code = run(arguments)
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), told.getvalue())


def doctor(dsn: str) -> list[tuple[str, str, str]]:
    """What it finds, check by check: (check, state, detail)."""
    ended = command("", "doctor", "--json", "--dsn", dsn, "--listen", f"127.0.0.1:{free_port()}")
    assert ended.stdout, ended.stderr
    return [(one["check"], one["state"], one["detail"]) for one in map(json.loads, ended.stdout.splitlines())]
