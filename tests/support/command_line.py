"""Gives commands to `tarry` in the test's own process, and keeps what each printed."""

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import frozen

from tarry.service.cli.app import run


@frozen
class Printed:
    """What a command printed."""

    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of its output."""
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """The cells of each line of a table, as a pipe has it."""
        return [line.split("\t") for line in self.lines]

    @property
    def words(self) -> str:
        """What it said of an error, without a frame around it and in one line."""
        return " ".join(self.err.replace("│", " ").split())

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def records(self) -> list[Any]:
        """A document a line."""
        return [json.loads(line) for line in self.lines]


@frozen
class CommandLine:
    """Called with a command, and with what that reads, it checks the code with which that ends."""

    _capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, code: int = 0, stdin: bytes | None = None) -> Printed:
        with pytest.MonkeyPatch.context() as patched:
            if stdin is not None:
                patched.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            return self._printed(run, arguments, code)

    def pipeline(self, *arguments: str, code: int = 0) -> Printed:
        """A command of `tarry pipeline`, which is a program of its own."""
        from tarry.pipeline.cli.app import run as run_pipeline  # not for all who have no use for it

        return self._printed(run_pipeline, arguments, code)

    def _printed(self, start: Callable[[Sequence[str]], int], arguments: Sequence[str], code: int) -> Printed:
        self._capsys.readouterr()
        ended = start(arguments)
        captured = self._capsys.readouterr()
        assert ended == code, captured.err
        return Printed(captured.out, captured.err)
