"""Runs of offsets to a group, as a task asks a server for them."""

import pytest

from support.scripted_server import Answer, Request, scripted_server
from tarry.pipeline.arrow import pa
from tarry.pipeline.pace import Pace
from tarry.pipeline.sending import http_replay
from tarry.pipeline.sending.http_replay import Target, write


@pytest.mark.parametrize(("rate", "asked"), [(100, [100, 100, 100, 50, 1]), (None, [350, 1])])
def test_a_long_run_goes_at_the_rate(monkeypatch: pytest.MonkeyPatch, rate: float | None, asked: list[int]) -> None:
    slept: list[float] = []
    replayed: list[tuple[float, int]] = []

    def replay(request: Request) -> Answer:
        many = request.json["to"] - request.json["from"]
        replayed.append((sum(slept), many))
        return Answer(document={"replayed": many, "more": False})

    monkeypatch.setattr(http_replay, "Pace", lambda rate: Pace(rate, lambda: sum(slept), slept.append))
    runs = pa.RecordBatch.from_pydict({"queue": [0, 1], "begin": [10, 5], "end": [360, 6]})
    with scripted_server() as server:
        server.respond = replay
        assert write(Target(server.url, "orders", "billing", "r", rate), [runs]) == (351, 351)
    assert [many for _, many in replayed] == asked
    if rate is not None:
        at = [when for when, _ in replayed]
        assert at == pytest.approx([0, 1, 2, 3, 3.5]), "a second's worth at a time"
