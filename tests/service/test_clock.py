"""The clock follows the database's, never runs ahead of it, and doubts a jump."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tarry.service.clock import AGREEING, JUMP, Clock

BOOT = 7_000_000_000


class Host:
    """A host's boot-time clock and a database's clock, both moved by hand."""

    def __init__(self) -> None:
        self.ns = BOOT
        self.database = 1_795_000_000_000
        self.delay_ns = 0
        self.server = "one"

    async def sample(self) -> int:
        answer = self.database
        self.ns += self.delay_ns
        self.database += self.delay_ns // 1_000_000
        return answer

    def monotonic(self) -> int:
        return self.ns

    def pass_ms(self, ms: int) -> None:
        self.ns += ms * 1_000_000
        self.database += ms


def make(host: Host) -> Clock:
    return Clock(host.sample, monotonic=host.monotonic, server=lambda: host.server)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
async def clock(host: Host) -> Clock:
    """With its first sample."""
    clock = make(host)
    await clock.take()
    return clock


async def test_goes_on_from_the_sample_by_boot_time(host: Host, clock: Clock) -> None:
    began = clock.now()
    assert began == host.database
    host.ns += 1_234_567_890
    assert clock.now() == began + 1234


@pytest.mark.parametrize("delay_ms", [40, 100])
async def test_is_never_ahead_of_the_database(host: Host, delay_ms: int) -> None:
    """Its first sample is taken all the same, when it has been asked a few times."""
    clock = make(host)
    host.delay_ns = delay_ms * 1_000_000
    await clock.take()
    assert delay_ms <= host.database - clock.now() <= delay_ms + 1
    assert host.ns == BOOT + 4 * host.delay_ns


async def test_has_no_time_before_the_first_sample() -> None:
    clock = make(Host())
    assert clock.in_doubt
    with pytest.raises(RuntimeError):
        clock.now()
    with pytest.raises(RuntimeError):
        clock.seconds_until(0)


@pytest.mark.parametrize("by", [-1500, -4, 1, 1500])
async def test_small_corrections_are_followed_at_once(host: Host, clock: Clock, by: int) -> None:
    host.database += by
    await clock.take()
    assert clock.now() == host.database
    assert not clock.in_doubt


@pytest.mark.parametrize("jump", [JUMP + 1, -JUMP - 1, 3_600_000, -3_600_000])
async def test_a_jump_holds_promotion_for_three_agreeing_samples(host: Host, clock: Clock, jump: int) -> None:
    host.database += jump
    for _ in range(AGREEING - 1):
        await clock.take()
        assert clock.in_doubt
        assert clock.now() == host.database - jump
        host.pass_ms(1000)
    await clock.take()
    assert not clock.in_doubt
    assert clock.now() == host.database
    assert clock.jumps == 1


async def test_a_single_wild_sample_is_forgotten(host: Host, clock: Clock) -> None:
    host.database += 60_000
    await clock.take()
    host.database -= 60_000
    assert clock.in_doubt
    await clock.take()
    assert not clock.in_doubt
    assert clock.now() == host.database


async def test_samples_that_disagree_begin_anew(host: Host, clock: Clock) -> None:
    for jump in (60_000, 600_000, 6_000_000):
        host.database += jump
        await clock.take()
        assert clock.in_doubt
    host.pass_ms(1000)
    await clock.take()
    host.pass_ms(1000)
    await clock.take()
    assert not clock.in_doubt


@given(ahead=st.integers(0, 10**7), elapsed_ns=st.integers(0, 10**12))
def test_sleeping_until_a_time_reaches_it_and_not_a_millisecond_more(ahead: int, elapsed_ns: int) -> None:
    host = Host()
    clock = make(host)

    async def scenario() -> None:
        await clock.take()
        host.ns += elapsed_ns
        target = clock.now() + ahead
        seconds = clock.seconds_until(target)
        host.ns += round(seconds * 1e9)
        # A float keeps the nanoseconds of a few hours but for the last; the hand looks again if it woke one too soon.
        assert target - 1 <= clock.now() <= target

    trio.run(scenario)


async def test_keeps_the_fraction_of_a_sample() -> None:
    host = Host()

    async def sample() -> float:
        return host.database + 0.75

    clock = Clock(sample, monotonic=host.monotonic)
    await clock.take()
    assert clock.now() == host.database
    assert clock.seconds_until(host.database + 1) == pytest.approx(0.000_25, abs=1e-6)
    host.ns += 260_000
    assert clock.now() == host.database + 1


async def test_another_servers_clock_is_sampled_before_anything_is_due(host: Host, clock: Clock) -> None:
    assert not clock.in_doubt
    host.server = "two"
    host.database -= 3000
    assert clock.in_doubt
    assert clock.is_anothers
    assert not clock.jumped
    await clock.take()
    assert not clock.in_doubt
    assert clock.now() == host.database


async def test_a_sample_during_the_change_is_nobodys() -> None:
    host, server = Host(), "one"

    async def sample() -> int:
        nonlocal server
        server = "two"
        return host.database + 4000

    clock = Clock(host.sample, monotonic=host.monotonic, server=lambda: server)
    await clock.take()
    clock._sample = sample
    await clock.take()
    assert clock.in_doubt
    assert clock.now() == host.database
    await clock.take()
    assert not clock.in_doubt


async def test_an_answer_that_was_longer_on_its_way_does_not_put_the_clock_back(host: Host, clock: Clock) -> None:
    host.pass_ms(2000)
    host.delay_ns = 2_900_000
    await clock.take()
    assert host.database - clock.now() < 2  # of which 1 ms is what the database's clock may have lost meanwhile


@pytest.mark.parametrize(("set_back", "kept"), [(0, True), (5, False), (250, False)])
async def test_what_is_behind_by_less_than_it_took_is_not_followed(
    host: Host, clock: Clock, set_back: int, *, kept: bool
) -> None:
    host.pass_ms(2000)
    host.database -= set_back
    host.delay_ns = 300_000_000
    await clock.take()
    # Of what is known 2 ms are taken that the database's clock may have lost meanwhile.
    assert clock.now() == host.database - (2 if kept else 300)


async def test_a_first_sample_that_was_slow_is_followed_by_quicker_ones() -> None:
    host, slow = Host(), [400, 300, 1]

    async def sample() -> int:
        answer, took = host.database, slow.pop(0)
        host.pass_ms(took)
        return answer

    clock = Clock(sample, monotonic=host.monotonic)
    await clock.take()
    assert (host.database - clock.now(), slow) == (1, [])


async def test_one_servers_answer_is_not_held_against_anothers(host: Host, clock: Clock) -> None:
    host.server = "two"
    host.database -= 2
    await clock.take()
    assert clock.now() == host.database


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(-500, 500), st.integers(0, 10**7)), max_size=30))
def test_is_never_ahead_of_a_database_whose_clock_is_slowed(steps: list[tuple[int, int, int]]) -> None:
    """Each sample is taken after so many nanoseconds, by a clock that is off by so many ppm, and so long on its way."""
    boot, database = BOOT, 1_795_000_000_000_000_000
    on_the_way = 0

    async def sample() -> float:
        nonlocal boot, database
        answer = database / 1_000_000
        boot += on_the_way
        database += on_the_way
        return answer

    async def scenario() -> None:
        nonlocal boot, database, on_the_way
        clock = Clock(sample, monotonic=lambda: boot)
        for elapsed, ppm, on_the_way in steps:  # noqa: B007  # `sample` reads it
            boot += elapsed
            database += elapsed + elapsed * ppm // 1_000_000
            await clock.take()
            assert clock.now() * 1_000_000 <= database + 256  # a float's

    trio.run(scenario)


def offer(host: Host, clock: Clock, off: int = 0, server: str = "one") -> None:
    clock.offer(host.database + off, server, clock.monotonic())


async def test_what_is_offered_is_followed_and_nothing_is_asked_for(host: Host, clock: Clock) -> None:
    assert not clock.is_fresh
    host.pass_ms(2000)
    offer(host, clock, 20)
    assert clock.now() == host.database + 20
    assert clock.is_fresh
    host.pass_ms(2400)
    assert clock.is_fresh
    host.pass_ms(200)
    assert not clock.is_fresh


@pytest.mark.parametrize("off", [JUMP + 1, -JUMP - 1, 3_600_000])
async def test_an_offer_that_is_off_is_not_followed_and_samples_are_asked_for(
    host: Host, clock: Clock, off: int
) -> None:
    offer(host, clock)
    assert clock.is_fresh
    offer(host, clock, off)
    assert not clock.is_fresh
    assert not clock.in_doubt
    assert clock.now() == host.database
    host.database += off
    await clock.take()
    assert clock.in_doubt
    offer(host, clock)
    assert clock.in_doubt, "three samples that were asked for agree first"
    assert not clock.is_fresh


async def test_an_offer_of_another_server_is_not_followed() -> None:
    host, server = Host(), "one"
    clock = Clock(host.sample, monotonic=host.monotonic, server=lambda: server)
    clock.offer(host.database, "one", 0)
    with pytest.raises(RuntimeError):
        clock.now()
    await clock.take()
    server = "two"
    for whose in ("one", "two"):
        offer(host, clock, 1000, whose)
        assert clock.in_doubt
        assert not clock.is_fresh
    await clock.take()
    offer(host, clock, 1000, "one")
    assert clock.now() == host.database
    assert not clock.is_fresh


async def test_an_offer_that_was_longer_on_its_way_does_not_put_the_clock_back(host: Host, clock: Clock) -> None:
    host.pass_ms(2000)
    offer(host, clock, -2)
    assert host.database - clock.now() == 1, "what the database's clock may have lost meanwhile"


@pytest.mark.parametrize("by", [1, 3_000, 86_400_000])
async def test_time_that_a_test_moves_stays_ahead_of_the_database(by: int) -> None:
    """By each kind of sample: those of the database know nothing of it."""
    host, added = Host(), 0
    clock = Clock(
        host.sample,
        monotonic=lambda: host.monotonic() + added * 1_000_000,
        server=lambda: host.server,
        ahead=lambda: float(added),
    )
    await clock.take()
    for _ in range(3):
        added += by
        assert clock.now() == host.database + added
        await clock.take()
        assert clock.now() == host.database + added
        host.pass_ms(2000)
        offer(host, clock)
        assert clock.is_fresh
        assert clock.now() == host.database + added
    assert (clock.jumps, clock.in_doubt) == (0, False)
