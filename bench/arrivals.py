"""Consumers over HTTP that claim with a long poll, acknowledge and claim again, and note when each message arrived."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from .lean_http import LeanHTTP
from .report import Figures, percentile

_SIZE = 100
"""The most messages that one claim asks for."""


class _Message(msgspec.Struct):
    id: str
    deliver_at: str


class _Claim(msgspec.Struct):
    claim: str | None
    messages: list[_Message]


class Arrivals:
    """Consumes the messages of a topic in the group `bench` until `total` are acknowledged."""

    def __init__(self, port: int, total: int, *, topic: str = "bench") -> None:
        self._port = port
        self._path = f"/v1/topics/{topic}/groups/bench/claim"
        self._total = total
        # (arrived, answer) of each claim that got messages; parsed only after the run.
        self.answers: list[tuple[int, bytes]] = []
        self.acked = 0

    async def consume(self, client: str) -> None:
        """Runs one consumer on its own connection until all messages are acknowledged, by this consumer or others."""
        claim = msgspec.json.encode({"client": client, "max": _SIZE, "wait": "2s"})
        async with LeanHTTP(self._port) as http:
            while self.acked < self._total:
                answer = await http.post(self._path, claim)
                if answer.startswith(b'{"claim":null'):
                    continue
                self.answers.append((http.arrived, answer))
                name = answer[10 : answer.index(b'"', 10)].decode()
                acked = await http.post(f"/v1/claims/{name}/ack", b"{}")
                self.acked += int(acked[acked.index(b":") + 1 : -1])

    def times(self) -> Iterator[tuple[int, float]]:
        """Yields each message's `deliver_at` and its lateness in milliseconds: the wall clock when its claim's whole
        answer had arrived, less `deliver_at`. Raises AssertionError unless each message came exactly once."""
        decode = msgspec.json.Decoder(_Claim).decode
        seen: set[str] = set()
        given = 0
        for arrived, answer in self.answers:
            for message in decode(answer).messages:
                seen.add(message.id)
                given += 1
                deliver_at = round(datetime.fromisoformat(message.deliver_at).timestamp() * 1000)
                yield deliver_at, arrived / 1_000_000 - deliver_at
        if not self.acked == len(seen) == given == self._total:
            raise AssertionError(
                f"{self._total} to come, {len(seen)} arrived, {given} times, {self.acked} acknowledged"
            )


def percentiles(late: Iterable[float]) -> Figures:
    """Percentiles of the lateness of messages, in milliseconds."""
    ordered = sorted(late)
    shares = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1}
    return {name: round(percentile(ordered, share), 2) for name, share in shares.items()}
