"""A send that is spread over a window, and what falls due when, through a real server and its kill."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from support.effort import full, tries
from support.server import client_of, start_server
from support.waiting import wait_until
from tarry.client import BadRequest, Draft, Tarry
from tarry.service.demo.server_process import ServerProcess

MANY = tries(20_000, 100_000)


def rows(tarry: Tarry, since: datetime, buckets: int) -> list[int]:
    answer = tarry.upcoming("mail", start=since, width="10m", buckets=buckets)
    return [bucket["messages"] for bucket in answer["buckets"]]


@full
@pytest.mark.parametrize("dsn", ["sqlite", "mariadb"], indirect=True)
@pytest.mark.cases(1)
def test_a_night(dsn: str, tmp_path: Path) -> None:
    """All lie evenly, what falls due when is exact before and after a kill, and goes on as messages are cancelled."""
    evening = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=2)
    night = (evening, evening + timedelta(hours=2))
    with start_server(tmp_path, dsn) as server:
        with client_of(server) as tarry:
            drafts = (Draft(body=n, key=f"k{n}", deliver_between=night) for n in range(MANY))
            receipts = tarry.publish_many("mail", drafts)
            assert all(night[0] <= receipt.deliver_at < night[1] for receipt in receipts)
            seconds = Counter(receipt.deliver_at.replace(microsecond=0) for receipt in receipts)
            mean = MANY / 7200
            assert (len(seconds), max(seconds.values()) <= 2 * mean) == (7200, True)
            by_bucket = Counter((receipt.deliver_at - evening) // timedelta(minutes=10) for receipt in receipts)
            expected = [by_bucket[number] for number in range(12)]
            assert rows(tarry, evening, 12) == expected
            for receipt in receipts[:50]:
                tarry.cancel(receipt)
                expected[(receipt.deliver_at - evening) // timedelta(minutes=10)] -= 1
            assert rows(tarry, evening, 12) == expected
        server.kill()
        server.start()
        with client_of(server) as tarry:
            assert rows(tarry, evening, 12) == expected
            assert sum(rows(tarry, evening + timedelta(seconds=30), 12)) < sum(expected)
            with pytest.raises(BadRequest, match="does not end after it begins"):
                tarry.publish("mail", 1, deliver_between=(night[1], night[0]))


def test_lines_lie_evenly_too(server: ServerProcess) -> None:
    evening = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)
    times = f'["{evening.isoformat()}", "{(evening + timedelta(minutes=10)).isoformat()}"]'
    lines = "".join(f'{{"body": {n}, "deliver_between": {times}}}\n' for n in range(1800))
    answer = httpx.post(
        f"{server.url}/v1/topics/mail/messages", content=lines, headers={"content-type": "application/x-ndjson"}
    )
    seconds = Counter(line.split('"deliver_at":"')[1][:19] for line in answer.text.splitlines())
    assert (len(seconds), set(seconds.values())) == (600, {3})


def test_a_receipt_tells_how_full_its_second_is(server: ServerProcess, tarry: Tarry) -> None:
    """Of a second of the next hour, as of one that comes soon."""
    now = datetime.now(UTC)
    next_hour = now.replace(minute=30, second=0, microsecond=0) + timedelta(hours=1)
    wait_until(lambda: "recovered" in server.tail(10_000))
    for at in (next_hour, now + timedelta(minutes=20)):
        assert [tarry.publish("mail", n, deliver_at=at).load for n in range(40)] == list(range(1, 41))
