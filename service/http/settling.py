"""POST /v1/claims/settle: acks and fails of many claims, and what was begun, in one request, each with an answer of its
own."""

from collections import defaultdict
from collections.abc import Sequence

import trio
from attrs import define
from msgspec import UNSET, UnsetType

from . import claims
from .answers import SettleAnswer, SettledAnswer
from .asgi import Response
from .call import Call, answer
from .problems import bad_field, problem_of, unexpected
from .requests import Settle, Settlement

MAX_IDS = 10_000
"""Of all settlements of a request."""


@define
class _Entry:
    """A settlement that is in order, and what is yet to be done of it."""

    claim: str
    begin: claims.Settling | None
    ack: claims.Settling | None
    fail: claims.Settling | None


async def settle(call: Call) -> Response:
    """Settle many claims, each for itself.

    Those of one claim are done one after the other, the others side by side, so that they share transactions.
    """
    request = await call.read(Settle)
    _check_ids(request.settle)
    entries = [_entry(call, one, f"/settle/{number}") for number, one in enumerate(request.settle)]
    settled: dict[int, SettledAnswer] = {}
    of_claim: defaultdict[str, list[int]] = defaultdict(list)
    for number, entry in enumerate(entries):
        of_claim[entry.claim].append(number)

    async def settle_one_by_one(numbers: Sequence[int]) -> None:
        for number in numbers:
            settled[number] = await _settle(call, entries[number])

    async with trio.open_nursery() as nursery:
        for numbers in of_claim.values():
            nursery.start_soon(settle_one_by_one, numbers)
    return answer(SettleAnswer(settled=[settled[number] for number in range(len(entries))]))


def _check_ids(settlements: Sequence[Settlement]) -> None:
    ids = 0
    for one in settlements:
        ids += len(one.ack) if isinstance(one.ack, list) else 0
        ids += len(one.begun or ())
        ids += 0 if one.fail is None else len(one.fail.ids or ())
    if ids > MAX_IDS:
        raise bad_field("/settle", f"it names {ids} ids, and may name {MAX_IDS}: send them in several requests")


def _entry(call: Call, one: Settlement, pointer: str) -> _Entry:
    if one.ack is None and one.fail is None and one.begun is None:
        raise bad_field(pointer, "say what is done in ack, what failed in fail, or what was begun in begun")
    if one.ack == "all" and one.fail is not None:
        raise bad_field(f"{pointer}/fail", "nothing is left to fail when all is acked")
    ids = one.ack if isinstance(one.ack, list) else None
    return _Entry(
        claim=one.claim,
        begin=None if one.begun is None else claims.beginning(call, one.claim, one.begun, f"{pointer}/begun"),
        ack=None if one.ack is None else claims.acking(call, one.claim, ids, f"{pointer}/ack"),
        fail=None if one.fail is None else claims.failing(call, one.claim, one.fail, f"{pointer}/fail"),
    )


async def _settle(call: Call, entry: _Entry) -> SettledAnswer:
    acked: int | UnsetType = UNSET
    retried = dead = 0
    try:
        await call.check_claim(entry.claim)
        if entry.begin is not None:
            claims.unless_lost(await entry.begin())
        if entry.ack is not None:
            acked = claims.unless_lost(await entry.ack()).acked
        if entry.fail is not None:
            settled = claims.unless_lost(await entry.fail())
            retried, dead = settled.retried, settled.dead
    except Exception as error:
        problem = problem_of(error) or unexpected(error, call.request.route)
        return SettledAnswer(acked=acked, error=problem.body)
    return SettledAnswer(acked=0 if acked is UNSET else acked, retried=retried, dead=dead)
