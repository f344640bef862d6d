"""Runs commands of `tarry` within this process; a few tests and those of the documents run them as processes."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from support.servers import free_port
from tarry.service.cli.app import run


def command(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command against a server, with an empty stdin; returns its output."""
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
    """The results of `tarry doctor`: (check, state, detail) of each check."""
    ended = command("", "doctor", "--json", "--dsn", dsn, "--listen", f"127.0.0.1:{free_port()}")
    assert ended.stdout, ended.stderr
    return [(one["check"], one["state"], one["detail"]) for one in map(json.loads, ended.stdout.splitlines())]
