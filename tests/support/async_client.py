# ruff: noqa: E501 - what is exchanged stands as it is written
"""Makes the asynchronous half of the client from the synchronous one.

    PYTHONPATH=.tree:tests .venv/bin/python -P -m support.async_client

Calls are written once, in `client/tarry.py`, `claims.py` and `producer.py`; here they are read, `await` is put before
what talks to the server and `async` before what awaits, and the words below are exchanged. Each exchange must be found,
so that none outlives what it was for. `tests/client/test_made.py` holds the files against what this makes.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

from attrs import frozen

CLIENT = Path(__file__).parents[2] / "client"

_TALKS = re.compile(r"self\._(transport|producer|claims|operations)\.(?!(dead|find|clients)\b)\w+")
"""What is awaited to begin with; not what gives messages page by page."""


@frozen
class Made:
    """A file that is made: from which, and what is exchanged on the way."""

    source: str
    exchanges: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"async_{self.source}"

    def text(self) -> str:
        """As it should be."""
        text = _awaited((CLIENT / self.source).read_text("utf-8"))
        for old, new in self.exchanges:
            if old not in text:
                raise LookupError(f"client/{self.source} has no more {old!r} to be exchanged, see {__file__}")
            text = text.replace(old, new)
        head = (
            f"# Made from {self.source} by tests/support/async_client.py. Change that file, and make this one again.\n"
        )
        return _formatted(head + text, self.name)


MADE = (
    Made(
        "claims.py",
        (
            ('one call."""', 'one call; for asyncio and trio."""'),
            ("import threading\n", ""),
            ("from typing import Any\n", "from typing import Any\n\nfrom anyio import Event\n"),
            ("threading.Event", "Event"),
            ("class Claims:", "class AsyncClaims:"),
            ("half of `Tarry`", "half of `AsyncTarry`"),
            (
                "from .transport import Transport, encode",
                "from .async_transport import AsyncTransport\nfrom .transport import encode",
            ),
            ("transport: Transport", "transport: AsyncTransport"),
        ),
    ),
    Made(
        "producer.py",
        (
            ("counts once.", "counts once.\n\nFor asyncio and trio.\n"),
            ("class Producer:", "class AsyncProducer:"),
            ("half of `Tarry`", "half of `AsyncTarry`"),
            ("OnFailure = Callable[[str, Any, TarryError], object]\n", ""),
            (
                "from .records import Draft, Receipt\n",
                "from .producer import OnFailure\nfrom .records import Draft, Receipt\n",
            ),
            (
                "from .transport import Transport\n",
                "from .async_transport import AsyncTransport\n",
            ),
            ("transport: Transport", "transport: AsyncTransport"),
        ),
    ),
    Made(
        "operations.py",
        (
            ('what is done stays done."""', 'what is done stays done.\n\nFor asyncio and trio.\n"""'),
            ("class Operations:", "class AsyncOperations:"),
            ("Callable, Iterable, Iterator\n", "AsyncIterator, Iterable\n"),
            ("-> Iterator[", "-> AsyncIterator["),
            (
                '            yield from page["messages"]\n',
                '            for message in page["messages"]:\n                yield message\n',
            ),
            ('OnProgress = Callable[[int], object]\n"""Called with how many there were so far."""\n', ""),
            (
                '            yield from page["clients"]\n',
                '            for client in page["clients"]:\n                yield client\n',
            ),
            (
                "from .records import DeadLetter, Message\n",
                "from .operations import OnProgress\nfrom .records import DeadLetter, Message\n",
            ),
            (
                "from .transport import Transport, encode",
                "from .async_transport import AsyncTransport\nfrom .transport import encode",
            ),
            ("transport: Transport", "transport: AsyncTransport"),
        ),
    ),
    Made(
        "tarry.py",
        (
            ('"""`Tarry`: one object', '"""`AsyncTarry`, for asyncio and trio: one object'),
            ("class Tarry:", "class AsyncTarry:"),
            ('f"Tarry(', 'f"AsyncTarry('),
            (
                "Safe to share between threads; close it, or use it in a `with`.",
                "For the tasks of one event loop, asyncio's or trio's. Use it in an\n"
                "    `async with`; what `consume` begins lives in that block and ends with it.",
            ),
            ("import time\n", ""),
            ("from threading import Event\n", ""),
            ("import httpx\n", "import httpx\nfrom anyio import sleep\n"),
            ("stop: Event | None", "stop: Stop | None"),
            ("httpx.Client", "httpx.AsyncClient"),
            ("sleep: Callable[[float], None] = time.sleep", "sleep: Callable[[float], Awaitable[None]] = sleep"),
            ("import Callable, Generator, Iterable, Iterator,", "import AsyncIterator, Awaitable, Callable, Iterable,"),
            ("Iterator[DeadLetter]", "AsyncIterator[DeadLetter]"),
            ("Iterator[dict[str, Any]]", "AsyncIterator[dict[str, Any]]"),
            ("= Operations(", "= AsyncOperations("),
            (
                "from .operations import OnProgress, Operations\n",
                "from .async_operations import AsyncOperations\nfrom .operations import OnProgress\n",
            ),
            ("Generator[Delivery, None, None]", "AsyncMessages"),
            ("from .delivery import Delivery\n", ""),
            ("from .claims import Claims\n", "from .async_claims import AsyncClaims\n"),
            ("= Claims(", "= AsyncClaims("),
            (
                "from .producer import OnFailure, Producer\n",
                "from .async_producer import AsyncProducer\nfrom .producer import OnFailure\n",
            ),
            ("= Producer(", "= AsyncProducer("),
            (
                "from .transport import Transport, encode\n",
                "from .async_transport import AsyncTransport\nfrom .transport import encode\n",
            ),
            ("= Transport(", "= AsyncTransport("),
            ("from .identity import Identity\n", "from .async_identity import AsyncIdentity\n"),
            ("Identity(url)", "AsyncIdentity(url)\n        self._loops = Loops()"),
            (
                "from .consumption import Consumption\n",
                "from .async_consumption import AsyncConsumption\nfrom .async_messages import AsyncMessages, Loops\n",
            ),
            ("from .runner import Runner\n", "from .async_runner import AsyncRunner, Stop\n"),
            ("from .warner import Warner\n", ""),
            ("        Runner(\n            Consumption(", "        await AsyncRunner(\n            AsyncConsumption("),
            (
                "def __enter__(self) -> Self:\n",
                "async def __aenter__(self) -> Self:\n        await self._loops.open()\n",
            ),
            ("def __exit__(", "def __aexit__("),
            ("await self.close()", "await self._loops.leave()\n        await self.close()"),
            (
                '"""Closes the connections."""',
                '"""Ends the loops of `consume` and closes the connections."""\n        await self._loops.close()',
            ),
            (
                "        consumption = Consumption(self._claims, terms)\n"
                "        warner = Warner(topic)\n"
                '        idle = None if idle_timeout is None else seconds(idle_timeout, "idle_timeout")\n'
                "        try:\n"
                "            consumption.start()\n"
                "            while (delivery := consumption.next(idle)) is not None:\n"
                "                warner.look(consumption.left())\n"
                "                yield delivery\n"
                "                del delivery  # whoever let go of it is not to be mistaken for having it\n"
                "            consumption.end_loop()\n"
                "            warner.look(consumption.left())\n"
                "        finally:\n"
                "            consumption.close()\n",
                "        return AsyncMessages(self._loops, AsyncConsumption(self._claims, terms), idle_timeout)\n",
            ),
            ("handled in a `with message:`", "handled in an `async with message:`"),
            (
                "without `with message:`, `ack`, `fail` or `retry` has failed: it comes again by its\n        ladder, and",
                "without `async with message:`, `ack`, `fail` or `retry` has failed: it comes again\n        by its ladder, and",
            ),
            ("in threads of its own. Acks", "in tasks of their own. Acks"),
            (
                "Leaving the loop gives back what was not handled, uncounted; that takes up to `wait`, because a claim in\n",
                "`async with tarry.consume(...) as messages` around the loop gives back at its end what was not handled,\n"
                "        uncounted. A loop that is left without it, by `break` or an error, does so in the background, at the\n"
                "        latest at the end of the client's own block. That takes up to `wait`, because a claim in\n",
            ),
            (
                "`handler(message.body)` in threads, until SIGTERM, SIGINT or `stop`.",
                "`await handler(message.body)` in tasks, until SIGTERM, SIGINT or `stop`.",
            ),
            (
                "has not returned by then is left alone, and its message to its lease.",
                "has not returned by then is cancelled, and its message goes back too.",
            ),
        ),
    ),
)


def _awaited(text: str) -> str:
    """With `async` and `await` where they belong: what talks to the server, and whatever calls that, to the last."""
    tree = ast.parse(text)
    methods = [
        method
        for kind in tree.body
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, ast.FunctionDef)
    ]
    talks: set[str] = set()
    waits: set[ast.FunctionDef] = set()
    while True:
        more = {method for method in methods if method not in waits and _calls(method, talks)}
        if not more:
            break
        waits |= more
        talks |= {f"self.{method.name}" for method in more}
    # Runner is awaited by an exchange, so that its method is not found here.
    waits |= {method for method in methods if method.name == "run"}
    marks: list[tuple[int, int, str]] = [(method.lineno, method.col_offset, "async ") for method in waits]
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for call in (call for method in waits for call in _calls(method, talks)):
        bare = isinstance(parents[call], ast.Attribute | ast.Subscript)
        marks.append((call.lineno, call.col_offset, "(await " if bare else "await "))
        if bare:
            assert call.end_lineno is not None
            assert call.end_col_offset is not None
            marks.append((call.end_lineno, call.end_col_offset, ")"))
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    for line, column, mark in sorted(marks, reverse=True):
        lines[line - 1] = lines[line - 1][:column] + mark.encode() + lines[line - 1][column:]
    return b"".join(lines).decode()


def _calls(method: ast.FunctionDef, talks: set[str]) -> list[ast.Call]:
    calls = [node for node in ast.walk(method) if isinstance(node, ast.Call)]
    return [call for call in calls if (name := ast.unparse(call.func)) in talks or _TALKS.fullmatch(name)]


def _formatted(text: str, name: str) -> str:
    path = str(CLIENT / name)
    for command in (["check", "--fix-only", "--select", "I", "-q"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> None:
    """Writes them."""
    for made in MADE:
        (CLIENT / made.name).write_text(made.text(), "utf-8")


if __name__ == "__main__":
    main()
