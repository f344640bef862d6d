"""The forecast is what waits, minute by minute, whatever happens to it; and what falls due when is told from it."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, integers, lists

from support.counting import counted as counted_statements
from support.stores import HOUR, MINUTE, SECOND, Stage
from tarry.store.cleaning import removal
from tarry.store.looking import upcoming
from tarry.store.looking.upcoming import Upcoming
from tarry.store.ports import Transaction
from tarry.store.records import Topic
from tarry.store.timers import forecast, timers


async def told(stage: Stage, topic: Topic, begin: int, width: int, buckets: int, *, overdue: bool = True) -> Upcoming:
    """What the forecast says, as row by row."""
    kept = await stage.store.read(upcoming.read, topic, begin, width, buckets, stage.now, overdue=overdue)
    assert kept == Upcoming(begin, await stage.store.read(rows, topic, begin, width, buckets, overdue=overdue))
    return kept


async def rows(
    tx: Transaction, topic: Topic, begin: int, width: int, buckets: int, *, overdue: bool
) -> tuple[int, ...]:
    times = [begin + number * width for number in range(buckets + 1)]
    lows = [0 if overdue else begin, *times[1:]]
    return tuple([await upcoming._count(tx, topic, *stretch) for stretch in zip(lows, times[1:], strict=False)])


async def add_up(stage: Stage) -> None:
    while await stage.store.write(forecast.add_up, stage.now):
        pass


async def check(stage: Stage) -> int:
    """By how many messages it was wrong."""
    since, wrong = (stage.now // MINUTE + 1) * MINUTE, 0
    while since < forecast.EVER:
        since, some = await stage.store.write(forecast.check, since)
        wrong += some
    return wrong


async def test_many_hours_at_once(stage: Stage, topic: Topic) -> None:
    """A month of one topic is more pairs of topic and hour than SQLite takes in a list."""
    receipts = await stage.schedule(topic, *(hour * HOUR + 30 * MINUTE for hour in range(1, 600)))
    await add_up(stage)
    assert not await stage.store.read(forecast.is_changed)
    assert (await told(stage, topic, stage.now, 100 * HOUR, 6)).counts == (99, 100, 100, 100, 100, 100)
    await stage.store.cancel([one.id for one in receipts], stage.now)
    await add_up(stage)
    assert (await told(stage, topic, stage.now, 100 * HOUR, 6)).counts == (0,) * 6


@pytest.mark.parametrize("moved", [False, True])
async def test_what_others_have_waiting_bounds_the_count(
    stage: Stage, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is overdue. It stops behind so many rows, whoever's they are, says where, and can be gone on with from
    there."""
    topic, other = await stage.topic(), await stage.topic("other")
    times = range(HOUR, 5 * HOUR, MINUTE)
    receipts = await stage.schedule(topic, *(at + 1 for at in times))
    others = await stage.schedule(other, *(at + 2 for at in times), *(at + 3 for at in times))
    if moved:  # to the same time, nearly
        moves = [(one.id, one.deliver_at + 5) for one in (*receipts, *others)]
        await stage.store.write(timers.reschedule, moves, stage.now)
    began = stage.now
    stage.now += 12 * HOUR
    assert (await told(stage, topic, began, HOUR, 6)).counts == (0, 60, 60, 60, 60, 0)
    monkeypatch.setattr(upcoming, "_AHEAD", 5)
    monkeypatch.setattr(upcoming, "_MOVED", 5)
    counted, overdue, since = 0, True, began
    parts = 0
    while True:
        async with counted_statements(stage.store) as count:
            part = await stage.store.read(upcoming.read, topic, since, HOUR, 6, stage.now, overdue=overdue)
        assert len(count.statements) <= 32 + 2 * 6
        counted, parts = counted + sum(part.counts), parts + 1
        assert sum(part.counts) <= 5 * 16
        if part.until is None:
            break
        assert len(part.counts) == (part.until - since + HOUR - 1) // HOUR
        since, overdue = part.until, False
    assert counted == len(receipts)
    assert parts > 5


@pytest.mark.parametrize("added_up", [False, True])
async def test_upcoming(stage: Stage, added_up: bool) -> None:
    topic, other = await stage.topic(), await stage.topic("other")
    receipts = await stage.schedule(topic, 10, HOUR + 1, HOUR + 2, 3 * HOUR - 1, 4 * HOUR)
    await stage.schedule(other, 10, HOUR)
    if added_up:
        await add_up(stage)
    assert (await told(stage, topic, stage.now, HOUR, 4)).counts == (1, 2, 1, 0)
    await stage.store.write(timers.reschedule, [(receipts[1].id, stage.now + 2 * HOUR)], stage.now)
    assert (await told(stage, topic, stage.now, HOUR, 4)).counts == (1, 1, 2, 0)
    await stage.store.cancel([receipts[2].id], stage.now)
    if added_up:
        await add_up(stage)
    assert (await told(stage, topic, stage.now + HOUR, HOUR, 4, overdue=False)).counts == (0, 2, 0, 1)
    stage.now += 2 * HOUR + SECOND
    assert (await told(stage, topic, stage.now, HOUR, 3)).counts == (3, 1, 0)
    await stage.fall_due()
    assert (await told(stage, topic, stage.now, HOUR, 3)).counts == (1, 1, 0)


async def test_no_row_is_read_for_what_is_ahead(stage: Stage, topic: Topic) -> None:
    await stage.schedule(topic, *(HOUR + i * SECOND for i in range(1000)))
    begin = stage.now // MINUTE * MINUTE
    async with counted_statements(stage.store) as count:
        kept = await stage.store.read(upcoming.read, topic, begin, HOUR, 100, stage.now)
    assert sum(kept.counts) == 1000
    assert len(count.statements) <= 32 + 3


async def test_others_bound_what_is_counted_of_parts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of minutes that are cut, everybody's rows are read, and no more than so many: it says how far it came."""
    topic, other = await stage.topic(), await stage.topic("other")
    begin = stage.now + HOUR + 30 * SECOND
    times = [begin - stage.now + i * 10 * SECOND for i in range(360)]
    await stage.schedule(topic, *times)
    await stage.schedule(other, *times)
    whole = await told(stage, topic, begin, 10 * MINUTE, 6, overdue=False)
    assert whole.counts == (60,) * 6
    monkeypatch.setattr(upcoming, "_READ", 50)
    counted, since, parts = 0, begin, 0
    while since < begin + HOUR:
        part = await stage.store.read(upcoming.read, topic, since, 10 * MINUTE, 6, stage.now, overdue=False)
        counted, parts = counted + sum(part.counts), parts + 1
        if part.until is None:
            break
        assert part.until > since
        since = part.until
    assert (counted, parts > 1) == (360, True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.cases(1)
async def test_random_lives(stage: Stage, seed: int) -> None:
    """Publishes, moves, cancels, promotions, additions and clearing up in any order, of any stretch."""
    chance = random.Random(seed)
    topics = [await stage.topic(name) for name in ("a", "b")]
    ids: list[int] = []
    for _ in range(60):
        match chance.randrange(7):
            case 0 | 1:
                delays = [chance.choice((SECOND, MINUTE, HOUR, 30 * HOUR)) * chance.randrange(1, 60) for _ in range(9)]
                ids += [one.id for one in await stage.schedule(chance.choice(topics), *delays)]
            case 2 if ids:
                moves = [(one, stage.now + chance.randrange(3 * HOUR)) for one in chance.sample(ids, min(5, len(ids)))]
                await stage.store.write(timers.reschedule, moves, stage.now)
            case 3 if ids:
                await stage.store.cancel(chance.sample(ids, min(4, len(ids))), stage.now)
            case 4:
                await stage.fall_due(after=chance.randrange(HOUR))
            case 5:
                await add_up(stage)
            case _:
                await stage.store.write(forecast.forget, stage.now)
        begin = stage.now + chance.choice((0, MINUTE, 17 * SECOND, HOUR))
        width = chance.choice((SECOND, MINUTE, 90 * SECOND, HOUR, 7 * HOUR + 1))
        await told(stage, chance.choice(topics), begin, width, chance.randrange(1, 12), overdue=chance.random() < 0.5)
    assert await check(stage) == 0


async def test_what_somebody_s_own_sql_did_is_found(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_CHECKED", 3)
    topic = await stage.topic()
    receipts = await stage.schedule(topic, *(i * 10 * MINUTE for i in range(1, 60)))
    await stage.store.write(timers.reschedule, [(receipts[i].id, stage.now + i * HOUR) for i in range(2, 9)], stage.now)
    await add_up(stage)
    with monkeypatch.context() as untold:
        untold.setattr(forecast, "changes", lambda *_args, **_rest: [])
        more = await stage.schedule(topic, *(i * 7 * MINUTE for i in range(1, 60)))
        await stage.store.cancel([one.id for one in receipts[20:30]], stage.now)
        await stage.store.write(timers.reschedule, [(more[5].id, stage.now + 5 * HOUR)], stage.now)
    assert (await stage.store.read(upcoming.read, topic, stage.now, 100 * HOUR, 1, stage.now)).counts == (59,)
    assert await check(stage) > 59
    assert (await told(stage, topic, stage.now, 100 * HOUR, 1)).counts == (59 + 59 - 10,)
    await told(stage, topic, stage.now, HOUR, 20)
    await add_up(stage)
    assert await check(stage) == 0


async def test_a_topic_that_is_removed(stage: Stage, topic: Topic) -> None:
    """Its messages go page by page, and are taken out of all that is ahead."""
    kept = await stage.topic("kept")
    await stage.schedule(topic, *(HOUR + i * SECOND for i in range(50)))
    await stage.schedule(kept, HOUR)
    await add_up(stage)
    assert await stage.store.remove_topic(topic, stage.now, force=True)
    for stone in await stage.store.read(removal.tombstones):
        place: removal.Step | None = removal.BEGIN
        while place is not None:
            place = (await stage.store.write(removal.clear, stone, place, 10)).next
    await add_up(stage)
    minutes = stage.now // MINUTE
    assert await stage.store.read(forecast.read, forecast.ALL, minutes, minutes + 600) == Counter({minutes + 60: 1})
    assert stage.count("forecast") == 2


async def test_no_minute_is_below_zero(stage: Stage, topic: Topic) -> None:
    """What somebody's own SQL brought is missing, and what is taken of it is told."""
    await stage.schedule(topic, HOUR + 5 * MINUTE)
    await stage.store.write(forecast.tell, stage.now, gone=[(topic.id, stage.now + HOUR + 9 * MINUTE)] * 2)
    for _ in "not added up yet", "added up":
        counts = (await stage.store.read(upcoming.read, topic, stage.now, HOUR, 3, stage.now)).counts
        assert (counts[1], sum(counts)) == (1, 1)
        await add_up(stage)
    assert await check(stage) == 2


async def test_what_is_over_goes(stage: Stage, topic: Topic) -> None:
    await stage.schedule(topic, *(i * HOUR for i in range(1, 10)))
    await add_up(stage)
    assert (stage.count("forecast"), stage.count("forecast_change")) == (18, 0)
    stage.now += 5 * HOUR
    await stage.store.write(forecast.forget, stage.now)
    hours = stage.column("SELECT hour FROM forecast")
    assert min(hours) == stage.now // HOUR
    assert len(hours) == 10


async def test_who_checks_waits_for_who_adds_up(stage: Stage) -> None:
    """The moment of the last check stands there, and never goes back."""
    assert await stage.store.read(forecast.checked_at) == 0
    await stage.store.write(forecast.checked, stage.now)
    await stage.store.write(forecast.checked, stage.now - 1)
    assert await stage.store.read(forecast.checked_at) == stage.now
    stage.tables.rows("UPDATE forecast_check SET began_at = 0")


@pytest.mark.slow
@given(
    dictionaries(integers(0, 5), lists(integers(0, 3), min_size=60, max_size=60)), integers(-10, 400), integers(0, 400)
)
def test_hours_tell_what_their_minutes_do(hours: dict[int, list[int]], since: int, length: int) -> None:
    ahead, until = forecast.Ahead(hours), since + length
    minutes = ahead.minutes(since, until)
    assert ahead.within(since, until) == minutes.total()
    assert all(ahead.of(minute) == minutes[minute] for minute in range(since, until))
    assert minutes == Counter(
        {
            60 * hour + place: many
            for hour, counts in hours.items()
            for place, many in enumerate(counts)
            if many and since <= 60 * hour + place < until
        }
    )
