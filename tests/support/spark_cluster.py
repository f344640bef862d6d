"""Runs a standalone Spark cluster on this machine, one master and two workers, from the installed PySpark.

Each is a separate process on loopback, ended by its id.
"""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import attrs

from support.servers import free_port
from tarry.service.demo.server_process import python_path

START_SECONDS = 120.0
ROOMS = ("pipeline", "store", "wheel", "client")
"""The parts of the package that a job needs; the service and the bench are left out."""


@attrs.define
class SparkCluster:
    """A running cluster. `home` has its logs and scratch files."""

    url: str
    home: Path
    environment: dict[str, str]

    def submit(self, file: Path, *arguments: str, options: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
        """Runs `spark-submit` on a file, with `options` before it; tarry is not on its path."""
        script = _script("spark-submit")
        return self._run([script, "--master", self.url, *options, str(file), *arguments], self.environment)

    def python(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Runs a Python that has tarry, without `spark-submit`."""
        return self._run([sys.executable, "-P", *arguments], self.environment | python_path())

    def _run(self, command: Sequence[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, env=environment, cwd=self.home, capture_output=True, text=True, check=False, timeout=400
        )

    def log(self) -> str:
        """The ends of the logs of master and workers."""
        return "\n".join(f"{path.name}:\n{path.read_text('utf-8')[-3000:]}" for path in self.home.glob("*.log"))


@contextmanager
def spark_cluster(home: Path, *, installed: bool = False) -> Iterator[SparkCluster]:
    """Starts a cluster of two workers, each with one core. `installed`: they have tarry; else a job must bring it."""
    port, pages = free_port(), free_port()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "TARRY_"))}
    own.pop("PYTHONPATH", None)
    environment = own | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(home / "scratch"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    cluster = SparkCluster(f"spark://127.0.0.1:{port}", home, environment)
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = ["org.apache.spark.deploy.worker.Worker", cluster.url, "--host", "127.0.0.1", "--cores", "1"]
    worker += ["--memory", "1g", "--webui-port", "0", "--work-dir", str(home / "work")]
    theirs = environment | python_path() if installed else environment
    running: list[subprocess.Popen[bytes]] = []
    try:
        running.append(_start(home / "master.log", [*master, "--webui-port", str(pages)], environment))
        _wait(running, pages, workers=0)
        running += [_start(home / f"worker-{number}.log", worker, theirs) for number in (1, 2)]
        _wait(running, pages, workers=2)
        yield cluster
    except BaseException:
        print(cluster.log())
        raise
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def package(path: Path) -> Path:
    """Makes a zip of the package for `--py-files`, as in the how-to."""
    root = Path(__file__).parents[2]
    with zipfile.ZipFile(path, "w") as archive:
        for file in [root / "__init__.py", *(file for room in ROOMS for file in sorted((root / room).rglob("*")))]:
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, Path("tarry") / file.relative_to(root))
    return path


def _script(name: str) -> str:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "bin" / name)


def _start(log: Path, arguments: Sequence[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    with log.open("ab") as out:
        # The script replaces itself with Java, so this process is the one to end later.
        return subprocess.Popen(
            [_script("spark-class"), *arguments],
            env=environment,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def _wait(running: "Sequence[subprocess.Popen[bytes]]", pages: int, *, workers: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert all(process.poll() is None for process in running), "a part of the cluster ended"
        with suppress(OSError, ValueError), urlopen(f"http://127.0.0.1:{pages}/json/", timeout=5) as answer:
            if json.load(answer)["aliveworkers"] >= workers:
                return
        time.sleep(0.2)
    raise TimeoutError(f"no cluster of {workers} workers within {START_SECONDS:.0f} s")
