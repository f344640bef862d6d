"""The call that settles many claims in one request (acks, fails and begun messages), with an answer for each."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

import trio
from attrs import define
from msgspec import UNSET, UnsetType

from . import claims
from .answers import SettleAnswer, SettledAnswer
from .asgi import Response
from .call import Call, answer
from .problems import bad_field, problem_of, unexpected
from .reading import decode, decode_each, has_more, is_large, read_body
from .requests import Settle, SettleApart, Settlement

MAX_IDS = 10_000
"""The most ids in all settlements of a request; also the most ranges of their claims."""
MOST = 1000
"""The most settlements of a request."""
_RANGES = 500
"""The most ranges of the claims that are settled side by side: a claim may have 64, and anybody can name claims that do
not exist."""


@define
class _Entry:
    """A settlement that has been checked, and its steps, which are yet to be done."""

    claim: str
    begin: claims.Settling | None
    ack: claims.Settling | None
    fail: claims.Settling | None


async def settle(call: Call) -> Response:
    """Settle many claims, each on its own.

    Settlements of one claim are done one after the other, the others side by side, so that they share transactions.
    """
    settlements = await _read(call)
    _check_ids(settlements)
    entries = [_entry(call, one, f"/settle/{number}") for number, one in enumerate(settlements)]
    settled: dict[int, SettledAnswer] = {}
    of_claim: defaultdict[str, list[int]] = defaultdict(list)
    for number, entry in enumerate(entries):
        of_claim[entry.claim].append(number)
    _check_ranges(of_claim)

    async def settle_one_by_one(numbers: Sequence[int]) -> None:
        for number in numbers:
            settled[number] = await _settle(call, entries[number])

    for some in _together(of_claim):
        async with trio.open_nursery() as nursery:
            for claim in some:
                nursery.start_soon(settle_one_by_one, of_claim[claim])
    return answer(SettleAnswer(settled=[settled[number] for number in range(len(entries))]))


async def _read(call: Call) -> Sequence[Settlement]:
    data = await read_body(call.request, Settle.limit)
    if not is_large(data):
        return decode(data, Settle).settle
    if has_more(data, "settle", MOST):
        raise bad_field("/settle", f"it must have {MOST} items at most")
    apart = decode(data, SettleApart).settle
    settlements: list[Settlement] = []
    ids = 0
    async for one in decode_each(apart, Settlement, "settle", Settlement.limit):
        ids += _ids_of(one)
        settlements.append(one)
        if ids > MAX_IDS:
            break  # `_check_ids` will refuse them
    return settlements


def _ranges_of(claim: str) -> int:
    return claim.count(".") + 1


def _check_ranges(claims: Collection[str]) -> None:
    ranges = sum(map(_ranges_of, claims))
    if ranges > MAX_IDS:
        detail = f"its claims have {ranges} ranges together, and may have {MAX_IDS}: send them in several requests"
        raise bad_field("/settle", detail)


def _together(claims: Iterable[str]) -> Iterator[list[str]]:
    """The claims, in groups of at most `_RANGES` ranges, or a single claim."""
    some: list[str] = []
    room = _RANGES
    for claim in claims:
        room -= _ranges_of(claim)
        if some and room < 0:
            yield some
            some, room = [], _RANGES
        some.append(claim)
    yield some


def _ids_of(one: Settlement) -> int:
    acked = len(one.ack) if isinstance(one.ack, list) else 0
    failed = 0 if one.fail is None else len(one.fail.ids or ())
    return acked + failed + len(one.begun or ())


def _check_ids(settlements: Sequence[Settlement]) -> None:
    ids = sum(map(_ids_of, settlements))
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
