"""Fills a store with rows of every kind, for tests that read all tables."""

from attrs import frozen

from support.stores import HOUR, MINUTE, SECOND, Stage
from tarry.store.records import ClaimRequest, Group, Settlement, Topic
from tarry.wheel.ladder import Ladder


@frozen
class Story:
    """The topics, groups and messages that were made."""

    orders: Topic
    billing: Group
    accounts: Topic
    ledger: Group
    cancelled: tuple[int, ...]


async def live(stage: Stage) -> Story:
    """Makes published, scheduled, cancelled, claimed, acked, failed, lost, dead, returned, parked, skipped messages."""
    orders = await stage.topic("orders", queues=2)
    billing = await stage.group(orders, "billing", ladder=Ladder((10 * SECOND,)))
    mails = await stage.group(orders, "mails")
    await stage.publish(
        *(
            stage.draft(
                orders,
                b'{"n": %d}' % i,
                queue=i % 2,
                key=f"k-{i}",
                tag="red" if i % 5 else "blue",
                headers=b'{"h": "%d"}' % i,
                content_type=None if i % 3 else "application/x-bytes",
            )
            for i in range(40)
        )
    )
    receipts = await stage.schedule(orders, HOUR, 2 * HOUR, 3 * HOUR)
    dropped = [receipts[1].id]
    await stage.store.cancel(dropped, stage.now)
    claim = await stage.claim(billing, 8)
    await stage.ack(billing, claim, (0, 1, 2))
    await stage.fail(billing, claim, (3, 4), reason="no funds")
    stage.now += SECOND
    await stage.fail(billing, claim, (5,), retry_after=5 * SECOND)
    await stage.ack(billing, claim)
    lost = await stage.claim(billing, 4, lease=2 * SECOND, client="client-2")
    assert lost.messages
    stage.now += 3 * SECOND
    await stage.end_leases(billing)
    stage.now += 15 * SECOND
    await stage.fall_due()  # failed messages and those with a lost lease come back
    back = await stage.claim(billing, 3)
    assert back.key.queue_id != claim.key.queue_id
    await stage.fail(billing, back, (0,), reason="dead now")
    await stage.ack(billing, back)
    (open_,) = (await stage.turn(billing, requests=[ClaimRequest("client-1", 5, HOUR, tells=True)])).claims
    assert open_ is not None
    await stage.settle(billing, Settlement(open_.key, "begin", begun=(1,)))
    await stage.turn(mails, requests=[ClaimRequest("client-3", 3, MINUTE, frozenset({"blue"}))])
    accounts = await stage.topic("accounts", ordered=True)
    ledger = await stage.group(accounts, "ledger")
    await stage.publish(*(stage.draft(accounts, b"%d" % i, ordering_key="a" if i < 6 else "b") for i in range(10)))
    held = await stage.claim(ledger, 4)
    await stage.settle(ledger, Settlement(held.key, "fail", (1,), "not yet"))
    stage.now += SECOND
    await stage.ack(ledger, held, (0,))
    await stage.claim(ledger, 6, lease=HOUR)
    await stage.schedule(orders, 5 * HOUR)
    return Story(orders, billing, accounts, ledger, tuple(dropped))
