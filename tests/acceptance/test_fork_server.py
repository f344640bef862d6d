"""A program that the tests fork is as one that is started: see `support.fork_server`."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import worker
from support.fork_server import put_tarry
from support.processes import is_there
from support.waiting import wait_until
from tarry.service.demo.server_process import ServerProcess, free_port, python_path

TARRY = (sys.executable, "-m", "tarry.service.cli.app")


@pytest.fixture(params=["forked", pytest.param("started", marks=pytest.mark.long)])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}
    return own | python_path() | {"TARRY_TEST_FORK": "1" if request.param == "forked" else "0"}


def test_output_errors_and_exit_code(environment: dict[str, str], tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*TARRY, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
        return done.returncode, done.stdout, done.stderr

    assert run("config", "show", "--listen", "127.0.0.1:1")[:1] == (0,)
    code, told, wrong = run("publish", "t", "x", "--url", "http://127.0.0.1:1", "--key", "k", "--no-such")
    assert (code, told) == (2, "")
    assert "--no-such" in wrong
    (tmp_path / "here.toml").write_text("nonsense = 1\n")
    code, _, wrong = run("serve", "--config", "here.toml")  # found from its own folder
    assert code == 2
    assert "nonsense" in wrong


def test_code_and_scripts(environment: dict[str, str], tmp_path: Path) -> None:
    code = "import sys, tarry; print(__name__, sys.argv); sys.exit(len(sys.argv))"

    def run(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    for flags in ((), ("-P",), ("-u",)):
        assert run(*flags, "-c", code, "a", "b") == (3, "__main__ ['-c', 'a', 'b']\n", "")
    failed, told, wrong = run(str(worker.__file__), "no-such-url")
    assert (failed, told) == (1, "")
    assert "missing 4 required positional arguments" in wrong


def test_threads_start_their_own(environment: dict[str, str], tmp_path: Path) -> None:
    def exit_code(argument: str) -> int:
        command = [*TARRY, *argument.split()]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=False).returncode

    wanted = {"--version": 0, "no-such-command": 2, "config show": 0, "config no-such-command": 2}
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(exit_code, wanted)) == [*wanted.values()]


def test_it_reads_its_input_and_has_its_own_session(environment: dict[str, str], tmp_path: Path) -> None:
    environment["COLUMNS"] = "100"
    process = subprocess.Popen(
        [*TARRY, "publish", "t", "-", "--url", "http://127.0.0.1:1"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        assert os.getsid(process.pid) == process.pid
        assert Path(f"/proc/{process.pid}/environ").exists()
        _, wrong = process.communicate(b'"body"', timeout=60)
    assert process.returncode == 75, wrong


def test_a_shell_types_it(environment: dict[str, str], tmp_path: Path) -> None:
    put_tarry(tmp_path)
    environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"

    def sh(text: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["sh", "-uc", text], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
        return done.returncode, done.stdout, done.stderr

    code, told, wrong = sh("TARRY_LISTEN=127.0.0.1:7 tarry config show | grep listen; tarry no-such-command")
    assert code == 2
    assert "127.0.0.1:7" in told
    assert "no-such-command" in wrong
    code, _, wrong = sh("""echo '"body"' | tarry publish t - --url http://127.0.0.1:1""")
    assert code == 75, wrong


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_signals_end_what_a_shell_has_typed(
    environment: dict[str, str], tmp_path: Path, number: int, code: int
) -> None:
    put_tarry(tmp_path)
    log = tmp_path / "log"
    words = ["tarry", "serve", "--dsn", f"sqlite:///{tmp_path}/tarry.db", "--listen", f"127.0.0.1:{free_port()}"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["sh", "-c", 'exec "$@"', "sh", tmp_path / words[0], *words[1:]], env=environment, stdout=out, stderr=out
        )
    wait_until(lambda: "recovered" in log.read_text())
    (server,) = (int(place.parent.name) for place in Path("/proc").glob("[0-9]*/fd") if _has_store(place, tmp_path))
    process.send_signal(number)
    assert process.wait(30) == code, log.read_text()
    wait_until(lambda: not is_there(server))


def _has_store(files: Path, folder: Path) -> bool:
    try:
        return any(place.readlink() == folder / "tarry.db" for place in files.iterdir())
    except OSError:
        return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_signals_end_it(environment: dict[str, str], tmp_path: Path, number: int, code: int) -> None:
    server = ServerProcess(tmp_path, f"sqlite:///{tmp_path}/tarry.db", environment=environment)
    server.start()
    try:
        pid = server.pid
        os.kill(pid, number)
        wait_until(lambda: server.ended)
        assert server.stop() == code
        assert not Path(f"/proc/{pid}").exists()  # it was this process's child
    finally:
        server.kill()
