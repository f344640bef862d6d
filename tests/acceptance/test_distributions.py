"""What is built and what is installed: a wheel of the rooms, an sdist of all that git has, and a client of few parts.

Everything is asked of the index before, and built and installed from that: what goes wrong later is no matter of the
network.
"""

import os
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from contextlib import suppress
from pathlib import Path

import attrs
import httpx
import pytest
import uv

from support.server import start_server
from support.servers import skip_or_fail
from support.waiting import wait_until
from tarry import __version__
from tarry.client import Tarry
from tarry.service.demo.server_process import free_port

ROOT = Path(__file__).parents[2]
ROOMS = {"client", "pipeline", "service", "store", "testing", "wheel"}
AT_MOST = 15
"""Distributions in all, ours too, for `pip install tarry`."""
OLD = ("fastapi==0.115.*", "httpx==0.27.*", "attrs==24.1.*", "anyio==4.4.*")
"""What users have pinned: the lowest that we say we go with."""
NOT_OURS = ("PYTHON", "TARRY_", "COVERAGE_", "UV_")
OWN = {name: value for name, value in os.environ.items() if not name.startswith(NOT_OURS)}


@attrs.frozen
class Built:
    sources: set[str]
    """What git has."""
    sdist: Path
    """Unpacked."""
    wheel: Path
    """Of the sdist."""
    wheel_of_checkout: Path
    bin: Path
    """Of an environment with the wheel, without an extra and without pip."""
    offline: dict[str, str]


def sources() -> set[str]:
    """What git has; in an sdist that is unpacked, what it has."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not listed:
        listed = "\0".join((ROOT / "tarry.egg-info" / "SOURCES.txt").read_text("utf-8").splitlines())
    names = {os.path.normpath(name) for name in listed.split("\0") if name}
    return {name for name in names if (ROOT / name).exists() and "egg-info" not in name}


def call(*command: str | Path, cwd: Path, env: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def pip(*arguments: str | Path) -> tuple[str | Path, ...]:
    return (sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", *arguments)


def download(to: Path, *wanted: str | Path) -> None:
    """From the index. The test is skipped where there is none, and fails in CI."""
    asked = subprocess.run(
        pip("download", "--quiet", "--dest", to, *wanted), env=OWN, capture_output=True, text=True, check=False
    )
    if asked.returncode:
        told = asked.stderr.strip()
        assert "conflict" not in told.lower(), told
        skip_or_fail(f"pip does not get what is needed: {told.splitlines()[-1]}")


def without_index(home: Path) -> dict[str, str]:
    """For uv, which takes what was downloaded to `parts`."""
    told = {"UV_FIND_LINKS": str(home / "parts"), "UV_CACHE_DIR": str(home / "cache"), "UV_PYTHON": sys.executable}
    return OWN | told | {"UV_OFFLINE": "1", "UV_NO_INDEX": "1"}


def locked(home: Path) -> tuple[str | Path, ...]:
    """In CI the versions of the lock, without its hashes: with these pip wants all that is asked for pinned."""
    if not os.environ.get("CI"):
        return ()
    lines = (ROOT / ".make" / "lock.txt").read_text("utf-8").splitlines()
    pins = [line.rstrip(" \\") for line in lines if "==" in line]
    (home / "pins.txt").write_text("\n".join(pins), "utf-8")
    return ("--constraint", home / "pins.txt")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("built")
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = document["build-system"]["requires"] + document["project"]["dependencies"]
    download(home / "parts", *locked(home), *wanted)
    offline = OWN | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(home / "parts")}

    names = sources()
    for name in names:
        copy = home / "checkout" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy, follow_symlinks=False)
    call(*pip("install", "--quiet", "--target", home / "tools", "setuptools"), cwd=home, env=offline)
    tools = OWN | {"PYTHONPATH": str(home / "tools")}
    build = "import sys, setuptools.build_meta as it; getattr(it, sys.argv[1])(sys.argv[2])"
    call(sys.executable, "-P", "-c", build, "build_sdist", home, cwd=home / "checkout", env=tools)
    (packed,) = home.glob("*.tar.gz")
    call("tar", "xf", packed, cwd=home, env=OWN)
    sdist = home / packed.name.removesuffix(".tar.gz")
    # As pip does where an index has no wheel.
    built_of = home / "built of"
    shutil.copytree(sdist, built_of)
    call(sys.executable, "-P", "-c", build, "build_wheel", home, cwd=built_of, env=tools)
    (wheel,) = home.glob("*.whl")
    straight = home / "straight"
    straight.mkdir()
    call(sys.executable, "-P", "-c", build, "build_wheel", straight, cwd=home / "checkout", env=tools)
    (wheel_of_checkout,) = straight.glob("*.whl")
    call(sys.executable, "-m", "venv", "--without-pip", home / "plain", cwd=home, env=OWN)
    call(*pip("--python", home / "plain", "install", "--quiet", wheel), cwd=home, env=offline)
    return Built(names, sdist, wheel, wheel_of_checkout, home / "plain" / "bin", offline)


def test_the_wheel_has_the_rooms_and_nothing_else(built: Built) -> None:
    """Their SQL, migrations, templates and types too; no bench, no tests."""
    with zipfile.ZipFile(built.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    of_rooms = {name for name in built.sources if name.split("/")[0] in {*ROOMS, "__init__.py", "py.typed"}}
    assert names == {f"tarry/{name}" for name in of_rooms}


def test_a_wheel_of_the_checkout_is_the_same(built: Built) -> None:
    """File by file, what it says of itself too."""

    def files(wheel: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    of_sdist, of_checkout = files(built.wheel), files(built.wheel_of_checkout)
    assert built.wheel.name == built.wheel_of_checkout.name
    assert of_sdist.keys() == of_checkout.keys()
    assert [name for name in of_sdist if of_sdist[name] != of_checkout[name]] == []


def test_the_sdist_has_all_that_git_has(built: Built) -> None:
    names = {str(path.relative_to(built.sdist)) for path in built.sdist.rglob("*") if path.is_file()}
    made = {name for name in names if name.startswith("tarry.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    assert names - made == {name for name in built.sources - made if not name.startswith(".tree/")}
    assert (built.sdist / ".ci" / "run").stat().st_mode & 0o111


def test_the_links_that_an_sdist_lacks_are_made(built: Built) -> None:
    def links(root: Path) -> dict[str, str]:
        return {path.name: str(path.readlink()) for path in (root / ".tree" / "tarry").iterdir() if path.is_symlink()}

    call(built.sdist / ".make" / "tree", cwd=built.sdist, env=OWN)
    assert links(built.sdist) == links(ROOT)


def test_few_parts_come_with_the_client(built: Built) -> None:
    count = "from importlib.metadata import distributions as of; print(*sorted(each.name for each in of()))"
    names = call(built.bin / "python", "-c", count, cwd=built.bin, env=OWN).split()
    assert "tarry" in names
    assert len(names) <= AT_MOST, names


CLIENT = """
import asyncio, importlib, pkgutil, sys
import tarry.client
from tarry.client import AsyncTarry, Tarry

for module in pkgutil.walk_packages(tarry.client.__path__, "tarry.client."):
    if not module.name.startswith("tarry.client.django"):  # a project of Django has Django
        importlib.import_module(module.name)

async def publish_async(url):
    async with AsyncTarry(url) as tarry:
        await tarry.publish("parts", {"from": "async"})

with Tarry(sys.argv[1]) as tarry:
    tarry.publish("parts", {"from": "plain"})
asyncio.run(publish_async(sys.argv[1]))
"""


def test_it_publishes(built: Built, tmp_path: Path) -> None:
    """And every module of the client is imported, those of the outbox too."""
    with start_server(tmp_path) as server:
        call(built.bin / "python", "-W", "error", "-c", CLIENT, server.url, cwd=tmp_path, env=OWN)
        with Tarry(server.url) as tarry:
            claim = tarry.claim("parts", "all", max=2, start="earliest")
            assert claim is not None
            assert sorted(message.body["from"] for message in claim.messages) == ["async", "plain"]


@pytest.mark.long
def test_it_publishes_beside_what_users_have_pinned(built: Built, tmp_path: Path) -> None:
    parts, python = tmp_path / "parts", tmp_path / "old" / "bin" / "python"
    download(parts, built.wheel, *OLD)
    offline, program = without_index(tmp_path), uv.find_uv_bin()
    call(program, "venv", "--quiet", "--no-config", python.parents[1], cwd=tmp_path, env=offline)
    install = (program, "pip", "install", "--quiet", "--no-config", "--python", python)
    call(*install, "tarry", *OLD, cwd=tmp_path, env=offline)
    with start_server(tmp_path) as server:
        call(python, "-W", "error", "-c", CLIENT, server.url, cwd=tmp_path, env=OWN)


@pytest.mark.long
def test_uvx_runs_it(built: Built, tmp_path: Path) -> None:
    """The wheel as it is: the client tells of itself, and with its extra the server serves, with pages and tables."""
    download(tmp_path / "parts", *locked(tmp_path), f"{built.wheel}[server]")
    offline = without_index(tmp_path)

    def uvx(what: str, *arguments: str) -> tuple[str, ...]:
        return (uv.find_uv_bin(), "tool", "run", "--quiet", "--no-config", "--from", what, "tarry", *arguments)

    alone, server = str(built.wheel), f"{built.wheel}[server]"
    assert "pip install 'tarry[server]'" in call(*uvx(alone, "--help"), cwd=tmp_path, env=offline)
    assert call(*uvx(alone, "--version"), cwd=tmp_path, env=offline) == f"{__version__}\n"
    assert "Usage: tarry COMMAND" in call(*uvx(server, "--help"), cwd=tmp_path, env=offline)
    listen = f"127.0.0.1:{free_port()}"
    command = uvx(server, "serve", "--listen", listen)
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, cwd=tmp_path, env=offline, stdout=log, stderr=log, start_new_session=True) as process,
        Tarry(f"http://{listen}") as tarry,
        httpx.Client(base_url=tarry._transport.url, headers={"accept": "text/html"}, follow_redirects=True) as browser,
    ):
        try:
            wait_until(tarry.ready)
            assert tarry.publish("parts", 7).state == "published"
            for page in ("/", "/ui/static/dashboard.css", "/docs", "/openapi.json"):
                assert browser.get(page).status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        except BaseException:
            print((tmp_path / "log").read_text())
            raise
        finally:
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(process.pid, signal.SIGKILL)  # uv's end alone is not that of the server which it started


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tarry serve", "tarry: the server and its commands are not installed"),
        ("tarry pipeline audit", "tarry pipeline: the pipeline is not installed"),
        ("python -m tarry.pipeline audit", "tarry pipeline: the pipeline is not installed"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(built: Built, command: str, told: str) -> None:
    program, *arguments = command.split()
    done = subprocess.run(
        [built.bin / program, *arguments], cwd=built.bin, env=OWN, capture_output=True, text=True, check=False
    )
    extra = "spark" if "pipeline" in command else "server"
    assert done.stderr == f"{told} (cyclopts is missing): pip install 'tarry[{extra}]'\n"
    assert (done.returncode, done.stdout) == (1, "")


def test_what_it_says_to_type_takes_tarry_from_where_it_is(built: Built) -> None:
    """pip looks for what the extra brings, which is not among the parts here, and for no other Tarry."""
    done = subprocess.run(
        pip("--python", built.bin.parent, "install", "tarry[server]"),
        env=built.offline,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "(from tarry[server])" in done.stderr
    assert "for tarry" not in done.stderr
