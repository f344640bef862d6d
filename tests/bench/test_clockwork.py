"""The fire times of the campaign's schedules: all are in the history, though the service keeps only the last."""

import json
from datetime import UTC, datetime
from pathlib import Path

import trio

from tarry.bench.campaign.clockwork import tell_fires
from tarry.bench.campaign.crew import Crew
from tarry.bench.campaign.journal import Journal
from tarry.bench.campaign.plan import SCHEDULES

_EPOCH = 1_795_000_000


class KeepsFew:
    """A node that knows the last fire times of each schedule."""

    def __init__(self) -> None:
        self.kept = range(0)

    async def open(self) -> object:
        return self

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        await trio.lowlevel.checkpoint()
        assert (method, body) == ("GET", b"")
        times = [datetime.fromtimestamp(_EPOCH + n, UTC).isoformat() for n in reversed(self.kept)]
        return json.dumps(
            {"fires": [{"fire_at": at, "at": at, "what": "fired"} for at in times], "cursor": None}
        ).encode()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_each_is_told_once_and_those_that_may_still_change_later(tmp_path: Path) -> None:
    path, node = tmp_path / "history.jsonl", KeepsFew()
    with Journal(path) as journal:
        crew = Crew(journal, [1], 1, 1, connect=lambda _: node)
        node.kept = range(5)
        await tell_fires(crew, crew.caller("fires"), until_ms=(_EPOCH + 3) * 1000)
        assert journal.counts["fire", "ok"] == 4 * len(SCHEDULES)
        node.kept = range(2, 8)
        await tell_fires(crew, crew.caller("fires"))
    told = [json.loads(line) for line in path.read_text().splitlines()]
    for name in SCHEDULES:
        dues = [one["due_ms"] for one in told if one["facts"]["schedule"] == name]
        assert sorted(dues) == [(_EPOCH + n) * 1000 for n in range(8)]
