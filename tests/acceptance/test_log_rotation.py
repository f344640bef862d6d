"""The log of a server in a file: rotated as the how-to says, by the real logrotate, while the server writes."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

from support.servers import skip_or_fail
from support.serving import served
from support.waiting import wait_until
from tarry.service.demo.server_process import free_port

PAGE = (Path(__file__).parents[2] / "docs/how-to/deploy.md").read_text("utf-8")


def test_a_file_is_copied_and_cut(tmp_path: Path) -> None:
    program = shutil.which("logrotate") or shutil.which("logrotate", path="/usr/sbin")
    if program is None:
        skip_or_fail("no logrotate on PATH")
    (block,) = re.findall(r"^```\n(/var/log/tarry/tarry\.log .*?)^```$", PAGE, re.M | re.S)
    with served(tmp_path) as server:
        server.start("--listen", f"127.0.0.1:{free_port()}", "--log-format", "json")
        log, config = tmp_path / "server.log", tmp_path / "logrotate.conf"
        wait_until(lambda: "forecast_checked" in server.log)  # the last of a start
        before = server.log
        config.write_text(block.replace("/var/log/tarry/tarry.log", str(log)))
        config.chmod(0o644)
        tmp_path.chmod(0o755)
        subprocess.run([program, "--force", "--state", str(tmp_path / "state"), str(config)], check=True, timeout=30)
        assert (tmp_path / "server.log.1").read_text("utf-8") == before
        assert server.log == ""
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.log != "")
        server.process.wait(30)
        assert server.log.startswith("{"), "no hole before what came later"
