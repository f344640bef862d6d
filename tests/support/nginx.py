"""Runs nginx with the configuration of a documentation page, but with the test's folder and port."""

import getpass
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from . import servers
from .waiting import wait_until


@contextmanager
def nginx(folder: Path, port: str, page: str) -> Iterator[None]:
    """Runs nginx; the certificate and the server's socket are in the folder."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        servers.skip_or_fail("no nginx on PATH")
    page = page.replace("/run/tarry/tarry.sock", str(folder / "tarry.sock"))
    own = {
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/": f"{folder}/",
        "server_name tarry.example;": "server_name tarry.example localhost;",
    }
    for known, ours in own.items():
        assert known in page
        page = page.replace(known, ours)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config, log = folder / "nginx.conf", folder / "nginx.log"
    user = f"user {getpass.getuser()};\n" if getpass.getuser() == "root" else ""
    config.write_text(
        f"{user}daemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{page}}}\n"
    )
    with log.open("wb") as out:
        process = subprocess.Popen(
            [program, "-p", str(folder), "-e", "stderr", "-c", str(config)], stdout=out, stderr=out
        )
    try:
        wait_until(lambda: process.poll() is not None or _answers(port))
        yield
    except BaseException:
        print(log.read_text())
        raise
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(10)


def _answers(port: str) -> bool:
    try:
        return httpx.get(f"https://localhost:{port}/livez", verify=False).is_success
    except httpx.HTTPError:
        return False
