"""A caller of the campaign: it sends requests to any node and tells whether they succeeded, failed or got no answer."""

from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Any, Literal, Protocol

import msgspec
import trio
from attrs import frozen

from ..lean_http import RefusedError
from .journal import Journal

PATIENCE = 6.0
"""Seconds to wait for an answer; longer than a poll waits, shorter than several pauses of nodes in a row."""

_REST = 0.05
"""Seconds of rest after a failed connection, a 503, or a page without an answer."""

Phase = Literal["ok", "fail", "unknown"]


class Line(Protocol):
    """A connection to one node, which may break: then it raises `OSError` or the errors of Trio's streams."""

    async def open(self) -> object: ...

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes: ...

    async def aclose(self) -> None: ...


class HarnessError(Exception):
    """The service refused a request as invalid, which is a bug of the harness."""


@frozen
class Answer:
    phase: Phase
    data: Any
    node: str
    reason: str = ""


class Caller:
    """Holds one connection at a time, and picks a node at random again after every failure."""

    def __init__(self, journal: Journal, ports: Sequence[int], random: Random, connect: Callable[[int], Line]) -> None:
        self._journal = journal
        self._ports = ports
        self._random = random
        self._connect = connect
        self._http: Line | None = None
        self.node = ""

    async def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Sends a request. Never raises for the effects of a fault; they become the phase of the answer."""
        http = await self._connected()
        if http is None:
            return Answer("fail", None, self.node, "no connection")
        try:
            with trio.fail_after(PATIENCE):
                answer = await http.ask(method, path, b"" if body is None else msgspec.json.encode(body))
        except RefusedError as refused:
            answered = self._refusal(refused)
            if refused.status == 503:
                await trio.sleep(_REST)
            return answered
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, OSError) as error:
            await self.close()
            return Answer("unknown", None, self.node, type(error).__name__)
        except trio.Cancelled:
            await self.close()  # the next request must not get the answer to this one
            raise
        return Answer("ok", msgspec.json.decode(answer), self.node)

    async def pages(self, path: str, name: str) -> AsyncIterator[dict[str, Any]]:
        """What the list `name` has there, page after page; a page without an answer is asked for again."""
        cursor = ""
        while True:
            answer = await self.ask("GET", f"{path}?max=100{cursor}")
            if answer.phase != "ok":
                await trio.sleep(_REST)
                continue
            for one in answer.data[name]:
                yield one
            if answer.data["cursor"] is None:
                return
            cursor = f"&cursor={answer.data['cursor']}"

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            with trio.CancelScope(shield=True):
                await http.aclose()

    async def _connected(self) -> Line | None:
        if self._http is not None and self._random.random() < 0.05:
            await self.close()  # so that callers move between nodes
        if self._http is None:
            port = self._random.choice(self._ports)
            http = self._connect(port)
            self.node = str(port)
            try:
                with trio.fail_after(PATIENCE):
                    await http.open()
            except (OSError, trio.TooSlowError):
                await trio.sleep(_REST)
                return None
            self._http = http
        return self._http

    def _refusal(self, refused: RefusedError) -> Answer:
        problem = msgspec.json.decode(refused.body)
        kind = str(problem["type"]).rpartition("/")[2]
        reason = str(problem.get("result") or kind)
        if refused.status == 500:  # a fault gives 503; 500 means a bug in the program
            self._journal.write("fault", "fail", reason=f"500: {problem.get('detail')}", node=self.node)
        if refused.status in (500, 503):
            known = problem.get("executed") is False
            return Answer("fail" if known else "unknown", problem, self.node, reason)
        if refused.status == 400 and "expires_at" in refused.body.decode():
            return Answer("fail", problem, self.node, "past its end")  # the request was on its way for too long
        if refused.status in (404, 409):
            return Answer("fail", problem, self.node, reason)
        raise HarnessError(f"{refused}")
