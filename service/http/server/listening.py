"""Opens the sockets to listen on; a Unix socket has its mode before anybody can connect, and is removed with the
server."""

import errno
import os
import socket
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_BACKLOG = 65_535
"""The kernel reduces it to its own limit."""


@contextmanager
def listen_on_host(host: str, port: int) -> Generator[list[socket.socket], None, None]:
    """Listens on all addresses of the host; with port 0 on the same free port for all. Raises `OSError`."""
    with ExitStack() as sockets:
        opened: list[socket.socket] = []
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            try:
                sock = sockets.enter_context(socket.socket(family, kind, protocol))
            except OSError as error:
                if error.errno == errno.EAFNOSUPPORT and (family == socket.AF_INET6 or opened):
                    continue  # `localhost` has an address in IPv6 where the system has none
                raise
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port or (opened[0].getsockname()[1] if opened else 0), *address[2:]))
            sock.listen(_BACKLOG)
            sock.setblocking(False)
            opened.append(sock)
        yield opened


@contextmanager
def listen_on_path(path: Path, mode: int) -> Generator[socket.socket, None, None]:
    """Listens on a Unix socket, which is removed at the end of the block. A socket that a killed server has left, on
    which nobody listens, is replaced. Raises `OSError`."""
    check_path(path)
    # Made under another name, where nobody connects before its mode is set, and then renamed in one step.
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
        yield sock
    finally:
        sock.close()
        with suppress(FileNotFoundError):
            if path.stat().st_ino == own:  # else another server has begun meanwhile
                path.unlink()


def check_path(path: Path) -> None:
    """Raises `OSError` if the path is not a socket, or another server listens on it."""
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
            pass  # its backlog is full, so somebody listens
    raise OSError(f"another server listens on {path}")
