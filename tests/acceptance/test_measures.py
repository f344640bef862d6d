"""What waits and who lags in /metrics, where there are more topics than have series of their own."""

from pathlib import Path

import httpx
import pytest

from support.server import start_server
from support.waiting import wait_until

MANY = 1200


@pytest.mark.timeout(180)
@pytest.mark.long
def test_the_youngest_of_many_topics_has_series_when_something_waits(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, httpx.Client(base_url=server.url) as http:
        for number in range(MANY):
            http.post(f"/v1/topics/t{number}/groups/g/claim", json={"client": "c"}).raise_for_status()
        last = f"t{MANY - 1}"
        for message in ({"body": 1}, {"body": 2}, {"body": 3, "delay": "1h"}):
            http.post(f"/v1/topics/{last}/messages", json=message).raise_for_status()
        wanted = {
            f'tarry_group_lag_messages{{group="g",topic="{last}"}} 2.0',
            f'tarry_pending_messages{{state="scheduled",topic="{last}"}} 1.0',
        }
        told: list[str] = []

        def shown() -> bool:
            told[:] = http.get("/metrics").text.splitlines()
            return wanted <= set(told)

        wait_until(shown, 120)
        for name, series in (("tarry_group_lag_messages{", 1000), ("tarry_pending_messages{", 2000)):
            assert sum(line.startswith(name) for line in told) == series
