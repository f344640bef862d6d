"""A scripted server, where a command looks for one."""

from collections.abc import Iterator

import pytest

from support.scripted_server import ScriptedServer, scripted_server


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        monkeypatch.setenv("TARRY_URL", script.url)
        yield script
