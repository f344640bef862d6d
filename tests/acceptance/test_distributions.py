"""What is built and what is installed: a wheel of the rooms, an sdist of all that git has, and a client of few parts.

Everything is asked of the index at once, and built and installed from that: what goes wrong later is no matter of the
network.
"""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import attrs
import pytest

from support.server import start_server
from support.servers import skip_or_fail
from tarry.client import Tarry

ROOT = Path(__file__).parents[2]
ROOMS = {"client", "pipeline", "service", "store", "testing", "wheel"}
AT_MOST = 15
"""Distributions in all, ours too, for `pip install tarry`."""
OWN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TARRY_", "COVERAGE_"))}


@attrs.frozen
class Built:
    sources: set[str]
    """What git has."""
    sdist: Path
    """Unpacked."""
    wheel: Path
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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("built")
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = document["build-system"]["requires"] + document["project"]["dependencies"]
    locked = ("--constraint", ROOT / ".make" / "lock.txt") if os.environ.get("CI") else ()
    asked = subprocess.run(
        pip("download", "--quiet", "--dest", home / "parts", *locked, *wanted),
        env=OWN,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        skip_or_fail(f"pip does not get what is needed: {asked.stderr.strip().splitlines()[-1]}")
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
    call(sys.executable, "-m", "venv", "--without-pip", home / "plain", cwd=home, env=OWN)
    call(*pip("--python", home / "plain", "install", "--quiet", wheel), cwd=home, env=offline)
    return Built(names, sdist, wheel, home / "plain" / "bin", offline)


def test_the_wheel_has_the_rooms_and_nothing_else(built: Built) -> None:
    """Their SQL, migrations, templates and types too; no bench, no tests."""
    with zipfile.ZipFile(built.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    of_rooms = {name for name in built.sources if name.split("/")[0] in {*ROOMS, "__init__.py", "py.typed"}}
    assert names == {f"tarry/{name}" for name in of_rooms}


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
