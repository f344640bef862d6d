"""Runs Podman with private storage: the images, containers and networks of a test, all removed at the end.

debootstrap makes its base image, since a test uses no registry of images, only Debian's mirror and PyPI. The image has
the certificates that this machine trusts, and pip's index. Where limits cannot be raised, containers get low ones.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs

SUITE = "bookworm"
BASE = "localhost/base"
WANTED = {
    "podman": "podman",
    "runc": "runc",
    "debootstrap": "debootstrap",
    "/usr/lib/podman/netavark": "netavark",
    "/usr/lib/podman/aardvark-dns": "aardvark-dns",
}
"""Programs, and the Debian packages that contain them."""
SENTENCE = (
    f"this test wants root and Debian's packages {' '.join(WANTED.values())}, with a Debian mirror and PyPI in reach:"
    f" apt-get install {' '.join(WANTED.values())}"
)
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_LIMITS = '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]\n'


class NoPodmanError(Exception):
    """No container can run on this machine; the text says why."""


@attrs.define
class Podman:
    """A Podman that keeps everything in `folder`."""

    folder: Path
    runtime: str = "runc"

    @property
    def command(self) -> list[str]:
        places = {"root": "images", "runroot": "run", "tmpdir": "tmp", "network-config-dir": "networks"}
        own = [word for flag, name in places.items() for word in (f"--{flag}", str(self.folder / name))]
        return ["podman", *own, "--runtime", self.runtime, "--cgroup-manager", "cgroupfs", "--events-backend", "file"]

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"CONTAINERS_CONF": str(self.folder / "containers.conf")}

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of podman to its end, whether it succeeds or not."""
        return subprocess.run(
            [*self.command, *arguments],
            env=self.environment | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def must(self, *arguments: str) -> str:
        """Runs a command that must succeed; returns its output."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"podman {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def open(self) -> None:
        """Makes the base image from Debian's packages. Raises `NoPodmanError`."""
        (self.folder / "networks").mkdir()
        (self.folder / "containers.conf").write_text(_LIMITS)
        base = self.folder / "base"
        make = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", SUITE, str(base)]
        done = subprocess.run(make, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise NoPodmanError(f"{SENTENCE}; debootstrap said {done.stdout[-500:]}{done.stderr[-500:]}")
        (base / "usr/bin/python").symlink_to("python3")
        if _CERTIFICATES.exists():
            shutil.copy(_CERTIFICATES, base / str(_CERTIFICATES).lstrip("/"))
        (base / "etc/pip.conf").write_text(f"[global]\ncert = {_CERTIFICATES}\n{_index()}")
        packed = self.folder / "base.tar"
        subprocess.run(["tar", "-C", base, "-c", "-f", packed, "."], check=True, timeout=120)
        shutil.rmtree(base)
        self.must("import", str(packed), BASE)
        packed.unlink()
        said: list[str] = []
        for self.runtime in ("crun", "runc"):  # podman prefers the first where it is installed
            done = self.run("run", "--rm", BASE, "true")
            if done.returncode == 0:
                return
            said.append(done.stderr.strip())
        raise NoPodmanError(f"{SENTENCE}; podman cannot run a container here: {'; '.join(said)}")

    def close(self) -> None:
        """Removes all containers, networks and mounts."""
        self.run("rm", "--all", "--force", "--time", "0")
        for name in self.run("network", "ls", "--format", "{{.Name}}").stdout.split():
            if name != "podman":
                self.run("network", "rm", "--force", name)
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in sorted((mount for mount in mounts if mount.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", mount], check=True, timeout=60)
        shutil.rmtree(self.folder)


def _index() -> str:
    """pip's index on this machine, if one is configured."""
    said = subprocess.check_output([sys.executable, "-P", "-m", "pip", "config", "list"], text=True, timeout=60)
    found = re.findall(r"\b(?:global|install|:env:)\.index-url='(https?://[^']+)'", said)
    return f"index-url = {found[-1]}\n" if found else ""


@contextmanager
def podman() -> Generator[Podman, None, None]:
    """A Podman with a base image. Raises `NoPodmanError`."""
    if os.geteuid() or not all(map(shutil.which, WANTED)):
        raise NoPodmanError(SENTENCE)
    own = Podman(Path(tempfile.mkdtemp(prefix="tarry-podman-")))
    try:
        own.open()
        yield own
    finally:
        own.close()
