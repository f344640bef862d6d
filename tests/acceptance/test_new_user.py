"""A new user follows the tutorial word for word: from `pip install` in a new environment to the last block of the page.

Only the port is another, since tests share a machine, and what a checkout has beside git is not copied.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import free_port

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_tutorial_from_installing_on(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl on PATH")
    page = (ROOT / "docs/tutorial/first-message.md").read_text("utf-8")
    install = re.findall(r"`(pip install [^`]+)`", page)
    checkout = tmp_path / "checkout"
    kept_out = shutil.ignore_patterns(".venv", ".git", "build", "*.egg-info", ".*_cache", "__pycache__", ".tree")
    shutil.copytree(ROOT, checkout, ignore=kept_out)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, cwd=tmp_path)
    port = free_port()
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TARRY_"))}
    environment = known | {
        "PATH": f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "TARRY_LISTEN": f"127.0.0.1:{port}",
    }
    for command in install:
        subprocess.run(["sh", "-euc", command], cwd=checkout, env=environment, check=True, capture_output=True)
    home = tmp_path / "home"
    home.mkdir()
    (_, serve), *blocks = _BLOCK.findall(page)
    said: list[str] = []
    with subprocess.Popen(["sh", "-euc", f"exec {serve}"], cwd=home, env=environment) as server:
        try:
            with Tarry(f"http://127.0.0.1:{port}") as tarry:
                wait_until(tarry.ready)
            for language, text in blocks:
                if re.match(r"(?:ID|CLAIM)=", text):
                    continue  # the user copies it from the answer before, see below
                here = re.sub(r"(localhost|127\.0\.0\.1):8277", rf"\1:{port}", text)
                run = ["sh", "-euc", here] if language == "sh" else ["python", "-c", here]
                answer = subprocess.check_output(run, cwd=home, env=environment, text=True, timeout=90)
                said.append(answer)
                if answer.startswith("{") and language == "sh":
                    for variable, member in (("ID", "id"), ("CLAIM", "claim")):
                        if value := json.loads(answer).get(member):
                            environment[variable] = value
        finally:
            server.send_signal(signal.SIGINT)
    told = [event["what"] for event in json.loads(said[5])["life"]]
    assert told == ["scheduled", "promoted", "claimed", "failed", "returned", "claimed", "acked"]
    assert said[-1] == "{'order': 9} 1\n"
