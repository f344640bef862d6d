"""A turn of a consumer group: its waiting acks, fails, extensions, lost leases and claims, in one transaction.

Mostly it is two flights: the locks together with what lies behind them, and the writes with the COMMIT. Each part has a
file: what is locked (`locked_rows`), what is said to a settlement (`settling`), where goes what fails (`failing`), what
is claimed (`claims`), and, of ordered topics alone, which keys may go on (`order`).
"""

from collections.abc import Callable, Collection, Sequence

from ..ports import Transaction
from ..records import ClaimRequest, Gather, Group, Outcome, Settlement, Turn
from .claims import Claiming
from .failing import Failing
from .locked_rows import Expected, lock, stand_in_line
from .order import Order
from .reach import Reach
from .settling import Settling


async def take(
    tx: Transaction,
    group: Group,
    settlements: Sequence[Settlement],
    requests: Sequence[ClaimRequest],
    *,
    now: int,
    make_id: Callable[[int], int],
    present: Collection[str] = (),
    expected: Expected | None = None,
    free: bool = False,
    reach: Reach | None = None,
    gather: Gather | None = None,
) -> tuple[Turn, Expected | None, Reach | None]:
    """Settles first, then claims; returns, too, what the next turn may take for `expected` (see `locked_rows.lock`) and
    for `reach`; with None it claims from all queues.

    Who stands in line hands in `gather`, which is asked when the group is free: while another's turn lasted more have
    come, and one commit is for all of them. It is not for turns that take some of the queues.

    `make_id` makes the id of a retry from when it is due. On an ordered topic the queues are shared among the clients
    that are `present`, those that ask and those that hold claims.
    """
    known = None
    if gather is not None and reach is None:
        known = await stand_in_line(tx, group)
        settlements, requests, now = gather()
    order = Order(group, now) if group.topic.ordered else None
    ranges = [part for settlement in settlements for part in settlement.ranges]
    locked = await lock(tx, group, ranges, requests, expected, now=now, free=free, reach=reach, known=known)

    acked_before, expired_before = locked.acked, locked.expired
    if order is not None:
        await order.load(tx, locked.claims.values(), ranges)
    locked.count_outside()
    settling = Settling(now, locked, order)
    for settlement in settlements:
        settling.settle(settlement)
    if order is not None:
        order.note_acks()
    await Failing(group, now, make_id, locked, order).write(tx, settling.failures)
    released = order is not None and await order.write(tx)
    await locked.write_claims(tx, now)

    more, left, cut, beside, following = released or (order is not None and locked.changed), False, False, False, None
    claiming = Claiming(locked, order, now, requests, await _room(tx, group) if requests else None)
    if requests:
        if order is not None:
            await order.share(tx, {*present, *(request.client for request in requests)})
        await claiming.write(tx)
        if order is None:
            more, cut = claiming.left or locked.more_behind, claiming.cut
            beside = reach is not None and locked.more_behind and claiming.in_vain
        else:
            released |= await order.write(tx)
            more, left = released or claiming.stopped, claiming.left
            cut = claiming.cut or released  # what was skipped may have let through what is wanted
        following = claiming.expect()
        if reach is not None:
            short = locked.more_behind and claiming.short
            reach = reach.after(locked.found, locked.left, locked.ends, now, in_vain=beside, short=short)
    await locked.write_cursors(tx)
    if settlements:  # also where all are refused, for claims that are not known here
        await tx.note()
    full, acked, expired = claiming.room == 0, locked.acked - acked_before, locked.expired - expired_before
    return Turn(settling.results(), claiming.claims, more, left, cut, full, acked, expired, beside), following, reach


async def _room(tx: Transaction, group: Group) -> int | None:
    """How many messages more may be in hand; None is no limit. Exact, since the group's cursors are locked."""
    if group.concurrency is None:
        return None
    outcomes = await tx.fetch("claim.outcomes", bytes, group.id)
    return max(0, group.concurrency - sum(outcome.count(Outcome.OPEN) for outcome in outcomes))
