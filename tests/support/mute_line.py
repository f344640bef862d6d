"""An HTTP proxy that loses some answers: the server did what was asked, but the client does not learn it."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit


class MuteLine(ThreadingHTTPServer):
    """`mute` is how many of the next answers to a POST to lose."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, self))
        self.to = urlsplit(url).netloc
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.mute = 0
        self._lock = Lock()

    def loses(self) -> bool:
        """Whether to lose this answer."""
        with self._lock:
            self.mute -= 1
            return self.mute >= 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, line: MuteLine, *request: Any) -> None:
        self._line = line
        super().__init__(*request)

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        there = HTTPConnection(self._line.to, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        there.request(self.command, self.path, body, headers)
        answer = there.getresponse()
        text = answer.read()
        there.close()
        if self.command == "POST" and self._line.loses():
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = _forward  # noqa: N815  # names of the base class

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # a name of the base class
        """Logs nothing."""


@contextmanager
def mute_line(url: str) -> Generator[MuteLine, None, None]:
    """Starts a proxy that runs until the end of the `with`."""
    line = MuteLine(url)
    thread = Thread(target=line.serve_forever)
    thread.start()
    try:
        yield line
    finally:
        line.shutdown()
        thread.join()
        line.server_close()
