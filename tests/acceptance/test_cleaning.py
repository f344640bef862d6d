"""Through the front door: what is settled goes, also when the server is killed in the middle of it."""

from contextlib import suppress
from pathlib import Path

import pytest

from support.in_turn import KINDS
from support.server import client_of, start_server
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerFailed, ServerProcess

SETTLED, OWED = 2500, 40


@pytest.mark.parametrize("dsn", KINDS, indirect=True)
@pytest.mark.parametrize("point", ["message.remove:after", "cleaned.move:commit", "message.remove:committed"])
@pytest.mark.cases(1)
def test_kill_in_the_middle_of_cleaning(dsn: str, point: str, tmp_path: Path) -> None:
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        tarry.put_topic("orders", retention=0)
        tarry.put_group("orders", "billing")
        for start in range(0, SETTLED + OWED, 500):
            bodies = range(start, min(start + 500, SETTLED + OWED))
            tarry.publish_many("orders", [{"body": body, "key": str(body)} for body in bodies])
        for _ in range(SETTLED // 500):
            claim = tarry.claim("orders", group="billing", max=500)
            assert claim is not None
            assert tarry.ack(claim) == 500
    # Cleaning begins with the server, and the second batch is its end.
    dying = ServerProcess(tmp_path, dsn, program=("tarry.bench.killing", point, "2"))
    try:
        with suppress(ServerFailed):
            dying.start()
        wait_until(lambda: dying.ended)
        assert dying.stop() == -9, dying.tail()
    finally:
        dying.kill()
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        wait_until(lambda: _lowest(tarry) >= SETTLED)
        assert _lowest(tarry) == SETTLED
        claim = tarry.claim("orders", group="billing", max=500)
        assert claim is not None
        assert [message.body for message in claim.messages] == list(range(SETTLED, SETTLED + OWED))
        assert tarry.ack(claim) == OWED
        group = tarry.group("orders", "billing")
        assert (group["acked"], group["backlog"], group["dead"]) == (SETTLED + OWED, 0, 0)


def _lowest(tarry: Tarry) -> int:
    """The lowest offset that is there."""
    (message,) = tarry.pull("orders", 0, 0, max=1).messages
    return message.offset
