"""A Unix socket to listen on: for whom it is from its first moment on, and gone with the server."""

import os
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

_BACKLOG = 4096
"""The kernel cuts it to what it allows."""


@contextmanager
def listen_on_path(path: Path, mode: int) -> Generator[trio.SocketListener, None, None]:
    """On a Unix socket, which goes with the block. One that nobody listens on, as a killed server leaves it, is
    replaced. Raises `OSError`."""
    check_path(path)
    # Made under another name, for only there nobody can connect before its mode is set; and put in place in one go.
    made = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        made.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(made))
        made.chmod(mode)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
        made.rename(path)
        own = path.stat().st_ino
    except BaseException:
        sock.close()
        with suppress(FileNotFoundError):
            made.unlink()
        raise
    try:
        yield trio.SocketListener(trio.socket.from_stdlib_socket(sock))
    finally:
        sock.close()
        with suppress(FileNotFoundError):
            if path.stat().st_ino == own:  # else another server has begun meanwhile
                path.unlink()


def check_path(path: Path) -> None:
    """Raises `OSError` for what is no socket, and for one that somebody listens on."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(f"{path} is there, and is no socket: choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
        except BlockingIOError:
            pass  # its line is full
    raise OSError(f"another server listens on {path}")
