"""The embedded store's time goes on by real time, whatever is done to the host's clock."""

from hypothesis import given
from hypothesis import strategies as st

from tarry.store.steady_clock import SteadyClock

START = 1_795_000_000_000_000_000
HOUR = 3_600_000


class Host:
    """A host's wall clock, which may be set, and its boot-time clock, which may not; in nanoseconds."""

    def __init__(self) -> None:
        self.wall = START
        self.boot = 7_000_000_123

    def pass_ms(self, ms: int) -> None:
        self.wall += ms * 1_000_000
        self.boot += ms * 1_000_000


@given(st.lists(st.tuples(st.integers(0, HOUR), st.integers(-30 * HOUR, 30 * HOUR))))
def test_steps_of_the_host_are_not_followed(history: list[tuple[int, int]]) -> None:
    host = Host()
    clock = SteadyClock(lambda: host.wall, lambda: host.boot)
    passed = skew = 0
    for rest, step in history:
        host.pass_ms(rest)
        host.wall += step * 1_000_000
        passed += rest
        skew += step
        assert clock.now() == START // 1_000_000 + passed
        assert clock.skew() == skew


def test_the_next_start_begins_with_the_hosts_clock() -> None:
    host = Host()
    SteadyClock(lambda: host.wall, lambda: host.boot)
    host.wall += 60_000_000_000
    clock = SteadyClock(lambda: host.wall, lambda: host.boot)
    assert clock.now() == host.wall // 1_000_000
    assert clock.skew() == 0
