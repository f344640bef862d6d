"""What a start can do without: its seconds are not measured here, but most of them go into loading."""

import os
import subprocess
import sys
from pathlib import Path

from tarry.service.demo.server_process import ServerProcess, python_path

NEVER = {"cryptography", "pyspark", "tarry.bench", "tarry.pipeline"}
CLIENTS = {"httpcore", "httpx", "tarry.client", "tenacity"}


def loaded(log: str) -> set[str]:
    """The modules in what Python writes with PYTHONPROFILEIMPORTTIME."""
    return {line.rpartition("|")[2].strip() for line in log.splitlines() if line.startswith("import time:")}


def with_parents(modules: set[str]) -> set[str]:
    return modules | {module.partition(".")[0] for module in modules}


def test_a_server_loads_what_it_serves_with(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, f"sqlite:///{tmp_path}/tarry.db", environment={"PYTHONPROFILEIMPORTTIME": "1"})
    try:
        server.start()
        assert server.stop() == 0
    finally:
        server.kill()
    modules = with_parents(loaded(server.log.read_text()))
    assert {"trio", "tarry.service.node", "tarry.store.sqlite.backend"} <= modules
    others = {"redis", "rich.console", "tarry.service.demo.demo", "tarry.store.mysql.backend", "trio_mysql"}
    assert not modules & (NEVER | CLIENTS | others)


def test_the_version_loads_next_to_nothing(tmp_path: Path) -> None:
    modules = _command(tmp_path, "--version")
    assert "cyclopts" in modules
    assert not modules & (NEVER | CLIENTS | {"trio", "structlog", "httptools", "prometheus_client"})


def test_a_client_s_command_loads_no_server(tmp_path: Path) -> None:
    modules = _command(tmp_path, "cancel", "5", "--url", "nowhere")
    assert "tarry.client" in modules
    assert not modules & (NEVER | {"tarry.service.serve", "structlog", "trio_mysql"})


def _command(folder: Path, *arguments: str) -> set[str]:
    environment = os.environ | python_path() | {"PYTHONPROFILEIMPORTTIME": "1"}
    command = [sys.executable, "-m", "tarry.service.cli.app", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return with_parents(loaded(done.stderr))
