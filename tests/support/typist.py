"""Types the blocks of a how-to as its reader would: in a folder, word for word but for the ports."""

import re
import subprocess
from pathlib import Path

from support.fork_server import put_tarry
from support.serving import Served
from tarry.service.demo.server_process import free_port

_HOW_TO = Path(__file__).parents[2] / "docs/how-to"


def blocks_of(page: str) -> dict[str, list[str]]:
    """The blocks of a how-to by their language; those that start a server are under `serve`."""
    found: dict[str, list[str]] = {}
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", (_HOW_TO / page).read_text("utf-8"), re.M | re.S):
        found.setdefault("serve" if text.startswith("tarry serve") else language, []).append(text)
    return found


class Typist:
    def __init__(self, folder: Path, *ports: str, **environment: str) -> None:
        """`ports`: those of the page, in whose place there are free ones."""
        self.folder = folder
        self.ports = {port: str(free_port()) for port in ports}
        put_tarry(folder)
        own = Served(folder).environment
        self.environment = own | {"PATH": f"{folder}:{own['PATH']}", "NO_COLOR": "1"} | environment

    def local(self, text: str) -> str:
        # All at once: a port of ours may have one of theirs among its digits.
        return re.sub("|".join(self.ports), lambda known: self.ports[known[0]], text)

    def sh(self, text: str, **environment: str) -> str:
        """What a shell prints that runs this."""
        return self.run("sh", "-euc", self.local(text), **environment)

    def run(self, *command: str, **environment: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
        return done.stdout
