"""The command line in the test's own process, and a scripted server where it looks for one."""

from collections.abc import Iterator

import pytest

from support.command_line import CommandLine
from support.scripted_server import ScriptedServer, scripted_server


@pytest.fixture
def tarry(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        monkeypatch.setenv("TARRY_URL", script.url)
        yield script
