"""A small real HTTP server that gives the answers that a test sets, and records its requests."""

import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field, frozen


@frozen
class Request:
    """A request that the server got."""

    method: str
    path: str
    content: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@frozen
class Answer:
    """An answer. `lost`: the connection is cut in place of the answer; `cut`: it is cut within the answer."""

    status: int = 200
    document: Any = field(factory=dict[str, Any])
    headers: Mapping[str, str] = field(factory=dict[str, str])
    content: bytes | None = None
    lost: bool = False
    cut: bool = False


LOST = Answer(lost=True)


def problem(status: int, **members: Any) -> Answer:
    """An answer with a problem document."""
    return Answer(status, {"title": f"a {status}", "status": status, **members})


@define
class ScriptedServer:
    """`say` queues answers; when there are none, `respond` gives the answer."""

    url: str = ""
    requests: list[Request] = field(factory=list[Request])
    signs: list[Request] = field(factory=list[Request])
    """Renewals and deregistrations of clients."""
    respond: Callable[[Request], Answer] = field(default=lambda _: problem(404))
    _answers: deque[Answer] = field(factory=deque[Answer])

    def say(self, *answers: Answer) -> None:
        self._answers.extend(answers)

    def answer(self, request: Request) -> Answer:
        if request.path.startswith("/v1/clients/"):  # a consumer's signs of life are not among its calls
            self.signs.append(request)
            return Answer(200, {"alive_until": "2026-01-01T00:00:15.000Z", "claims": 0})
        self.requests.append(request)
        return self._answers.popleft() if self._answers else self.respond(request)


@contextmanager
def scripted_server() -> Generator[ScriptedServer, None, None]:
    """Serves from threads until the end of the block."""
    script = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = script.answer(Request(self.command, self.path, content, dict(self.headers)))
            if answer.lost:
                self.close_connection = True
                return
            body = json.dumps(answer.document).encode() if answer.content is None else answer.content
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(body) + answer.cut), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection |= answer.cut

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the base class's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            # The client gave up before the answer; a traceback would end up in another test's stderr.
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    with Server(("127.0.0.1", 0), Handler) as server:
        script.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()
