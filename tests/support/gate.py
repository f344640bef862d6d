"""A TCP proxy in front of a server: open, it forwards all; shut, it cuts its connections and refuses new ones."""

import socket
import threading
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit


class Gate:
    """Listens on a free port, in threads; call `close` at the end."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._links: list[socket.socket] = []
        self._lock = threading.Lock()
        self._is_open = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @classmethod
    def before(cls, dsn: str) -> Self:
        """A gate in front of the server of a DSN."""
        to = urlsplit(dsn)
        return cls(to.hostname or "", to.port or 3306)

    def through(self, dsn: str) -> str:
        """The same DSN, but through the gate."""
        to = urlsplit(dsn)
        login, _, _ = to.netloc.rpartition("@")
        return to._replace(netloc=f"{login}@127.0.0.1:{self.port}").geturl()

    def shut(self) -> None:
        """Cuts all connections and refuses new ones."""
        with self._lock:
            self._is_open = False
            for link in self._links:
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)
            self._links.clear()

    def open(self) -> None:
        """Forwards again."""
        with self._lock:
            self._is_open = True

    def close(self) -> None:
        """Shuts the gate and stops listening."""
        self.shut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._is_open:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._links += [near, far]
            threading.Thread(target=self._join, args=(near, far), daemon=True).start()

    def _join(self, near: socket.socket, far: socket.socket) -> None:
        with near, far:
            back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
            back.start()
            _pass_on(near, far)
            back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
