"""Fills a server with data for every page of the dashboard: topics, failures on all rungs, dead letters, schedules,
timers, clients, and malicious names and bodies.

    PYTHONPATH=.tree:tests .venv/bin/python -P -m support.dashboard_data http://127.0.0.1:8277
"""

import sys
from datetime import UTC, datetime, timedelta

from tarry.client import Tarry

HOSTILE = "<script>alert(1)</script>"
BREAKER = "\"'><img src=x onerror=alert(2)>"
LONG = "a-name-as-long-as-some-people-like-them-" * 4


def fill(tarry: Tarry, messages: int = 10_000) -> dict[str, str]:
    """Fills the server; returns the ids of messages that tests look at, by their kind."""
    ids: dict[str, str] = {}
    tarry.put_group("orders", "billing", ladder=["1m", "2m", "3m", "4m", "5m", "10m", "1h", "2h"])
    tarry.put_group("orders", "mailing")
    tarry.put_topic("payments", ordered=True, queues=4)
    tarry.put_group("payments", "ledger")
    for start in range(0, messages, 1000):
        tarry.publish_many(
            "orders",
            [
                {"body": {"order": n}, "key": f"order-{n}", "delay": f"{1 + (n * n * 7919) % 2_500_000}s"}
                for n in range(start, start + 1000)
            ],
        )
    tarry.publish_many("orders", [{"body": {"order": n, "customer": {"name": "Anna"}}} for n in range(60)])
    tarry.publish_many("payments", [{"body": n, "ordering_key": f"k{n % 7}"} for n in range(40)])
    tarry.publish_many("carts", [{"body": {"cart": n}} for n in range(20)])
    claim = tarry.claim("orders", "billing", max=10)
    assert claim is not None
    tarry.ack(claim)
    ids["acked"] = claim.messages[0].id
    for many in (12, 9, 7, 4, 2):  # each time some come back at once, to fail on the next rung
        claim = tarry.claim("orders", "billing", max=many, wait="5s")
        assert claim is not None
        for number, message in enumerate(claim.messages):
            again = "1ms" if number % 3 else "2h"
            tarry.fail(claim, [message.id], reason="the printer is on fire", retry_after=again)
        ids["failed"] = claim.messages[0].id
    assert tarry.claim("orders", "billing", max=4, lease="1h") is not None
    tarry.put_group("parcels", "labels", ladder=[])
    tarry.publish_many("parcels", [{"body": {"parcel": n}, "key": f"parcel-{n}"} for n in range(80)])
    reasons = ("no ink", "timeout after 30 s", HOSTILE, f"{LONG} {BREAKER}")
    while (claim := tarry.claim("parcels", "labels", max=20)) is not None:
        for number, message in enumerate(claim.messages):
            tarry.fail(claim, [message.id], reason=reasons[number % len(reasons)])
            ids["dead"] = message.id
    hostile = tarry.publish(
        "orders",
        {HOSTILE: [BREAKER, "</pre><script>alert(3)</script>"]},
        key=BREAKER,
        headers={HOSTILE: BREAKER},
        tag=HOSTILE,
        delay="1h",
    )
    ids["hostile"] = hostile.id
    tarry.publish("orders", {"bytes": "x" * 4000}, key=LONG[:200], delay="2h")
    ids["waiting"] = tarry.publish("orders", {"order": 7}, key="order-7", delay="48h").id
    ids["cancelled"] = tarry.publish("orders", {"order": 8}, key="order-8", delay="48h").id
    tarry.cancel(ids["cancelled"])
    tarry.set_timer("orders", "cart-7", {"remind": True}, delay="30m")
    tarry.put_schedule("daily-report", cron="0 9 * * *", timezone="Europe/Berlin", topic="reports", body={"day": True})
    since = (datetime.now(UTC) - timedelta(hours=6)).strftime("%Y-%m-%dT%H:00:00Z")
    tarry.put_schedule(
        "hourly", cron="0 * * * *", topic="reports", body={"hour": HOSTILE}, key=BREAKER, starts_at=since
    )
    tarry.put_schedule("heartbeat", every="1s", topic="beats", body=1)
    tarry.run_schedule("hourly")
    tarry.put_topic(LONG)
    return ids


if __name__ == "__main__":
    with Tarry(sys.argv[1]) as tarry:
        print(fill(tarry))
