"""Cron expressions: what is refused, with the field; the next times against cronsim walked on; the days when clocks
are set."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tarry.service.durations import format_time, parse_time
from tarry.service.schedules.cron import Cron, check, check_steps
from tarry.service.schedules.zones import zone_named

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400_000


def times(expression: str, zone: str, start: str, count: int) -> list[str]:
    cron, at = Cron(expression, zone), parse_time(start)
    found: list[str] = []
    for _ in range(count):
        following = cron.after(at)
        assert following is not None
        found.append(format_time(following).removesuffix(":00.000Z"))
        at = following
    return found


class TestRefusal:
    @pytest.mark.parametrize(
        ("expression", "said"),
        [
            ("0 9 * *", "it has 4 fields, and wants 5 (minute, hour, day-of-month, month, day-of-week), or 6"),
            ("", "it has 0 fields"),
            ("60 9 * * *", "the minute field '60' is not in order: write 0 to 59"),
            ("0 24 * * *", "the hour field '24' is not in order: write 0 to 23"),
            ("0 9 0 * *", "the day-of-month field '0' is not in order: write 1 to 31"),
            ("0 9 * 13 *", "the month field '13' is not in order: write 1 to 12, or JAN to DEC"),
            ("0 9 * * 8", "the day-of-week field '8' is not in order: write 0 to 7"),
            ("0 9 * * MOON", "the day-of-week field 'MOON' is not in order"),
            ("61 0 9 * * *", "the second field '61' is not in order"),
            ("*/0 * * * *", "the minute field '*/0' is not in order: write 0 to 59; a step is 1 or more"),
            ("5-1 * * * *", "the minute field '5-1' is not in order: write 0 to 59; a range goes from low to high"),
            ("0 9 31 2 *", "the day-of-month field '31' never comes in the months of the month field '2'"),
            ("0 9 30 FEB *", "the day-of-month field '30' never comes in the months of the month field 'FEB'"),
            ("0 9 31 4,6 *", "the day-of-month field '31' never comes"),
            ("0 9 */31 2 MON#5", "never comes in the months of the month field '2' on the days of the day-of-week"),
            ("@daily", "write '0 0 * * *' in place of '@daily'"),
            ("0 " * 200 + "*", "it has 401 characters, and may have 200"),
            ("٣ * * * *", "the minute field '٣' is not in order"),
        ],
    )
    def test_names_the_field(self, expression: str, said: str) -> None:
        with pytest.raises(ValueError, match=re.escape(said)):
            check(expression)

    @pytest.mark.parametrize("expression", ["0 9 29 2 *", "0 9 30 2 MON", "0 9 L * *", "0 9 LW 2 *", "0 9 * * 5L"])
    def test_rare_but_possible(self, expression: str) -> None:
        check(expression)

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("Europe/Berln", "did you mean 'Europe/Berlin'?"),
            ("berlin", "did you mean 'Europe/Berlin'?"),
            ("new york", "did you mean 'America/New_York'?"),
            ("utc", "did you mean 'UTC'?"),
            ("../../etc/passwd", "write its IANA name"),
            ("", "write its IANA name"),
        ],
    )
    def test_zone(self, name: str, meant: str) -> None:
        with pytest.raises(ValueError, match=f"there is no time zone .*{re.escape(meant)}"):
            zone_named(name)

    def test_the_zone_of_a_machine(self) -> None:
        with pytest.raises(ValueError, match="'localtime' is no zone of its own: write an IANA name"):
            zone_named("localtime")

    @pytest.mark.parametrize(
        ("expression", "said"),
        [
            ("*/61 * * * *", "the minute field '*/61' has the step 61, and comes once in 60 all the same"),
            ("0 0,1-5/25 * * *", "the hour field '0,1-5/25' has the step 25"),
            ("*/61 0 0 * * *", "the second field '*/61' has the step 61"),
            ("0 0 1 */13 *", "the month field '*/13' has the step 13"),
            ("0 0 * * */8", "the day-of-week field"),
            ("0 0 */32 * *", "write an interval as every"),
        ],
    )
    def test_a_step_longer_than_its_field(self, expression: str, said: str) -> None:
        check(expression)  # what was set before goes on
        with pytest.raises(ValueError, match=re.escape(said)):
            check_steps(expression)

    @pytest.mark.parametrize("expression", ["*/60 */24 */31 */12 */7", "*/60 * * * * *", "0 9 * * MON#1", "0 9 L * *"])
    def test_steps_that_come_again(self, expression: str) -> None:
        check_steps(expression)


class TestClocksAreSet:
    """Berlin: on 29 March 2026 from 2 to 3, on 25 October from 3 back to 2."""

    @pytest.mark.parametrize(
        ("expression", "start", "found"),
        [
            pytest.param("0 9 * * *", "03-28T00:00", ["03-28T08:00", "03-29T07:00"], id="nine is nine"),
            # At 3:00 in Berlin.
            pytest.param(
                "30 2 * * *", "03-28T12:00", ["03-29T01:00", "03-30T00:30"], id="leapt over, at the leap's end"
            ),
            # While it is summer still.
            pytest.param("30 2 * * *", "10-24T12:00", ["10-25T00:30", "10-26T01:30"], id="shown twice, once"),
            pytest.param("30 2 * * *", "10-25T01:10", ["10-26T01:30"], id="between the two of them it has been"),
            pytest.param(
                "0 * * * *", "10-24T23:30", [f"10-25T{hour:02}:00" for hour in range(4)], id="each hour that passes"
            ),
        ],
    )
    def test_on_the_days_of_berlin(self, expression: str, start: str, found: list[str]) -> None:
        told = times(expression, "Europe/Berlin", f"2026-{start}:00Z", len(found))
        assert told == [f"2026-{one}" for one in found]

    def test_a_clock_that_is_set_by_half_an_hour(self) -> None:
        found = times("0,30 2 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 3)
        assert found == sorted(set(found))


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    pair = st.tuples(number, number).map(sorted)
    return st.one_of(
        st.just("*"),
        st.just("*"),
        number.map(str),
        st.integers(1, 20).map(lambda step: f"*/{step}"),
        pair.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(pair, st.integers(1, 9)).map(lambda one: f"{one[0][0]}-{one[0][1]}/{one[1]}"),
        st.lists(number, min_size=2, max_size=4).map(lambda some: ",".join(map(str, some))),
    )


DAYS = st.one_of(field(1, 31), st.sampled_from(["L", "LW", "31", "29"]))
WEEKDAYS = st.one_of(st.just("*"), field(0, 7), st.sampled_from(["MON-FRI", "SUN", "5L", "FRI#2", "MON#1"]))
EXPRESSIONS = st.one_of(
    st.tuples(field(0, 59), field(0, 23), DAYS, field(1, 12), WEEKDAYS),
    # What falls on the hours at which clocks are set.
    st.tuples(field(0, 59), field(0, 4), st.just("*"), st.just("*"), st.just("*")),
    st.tuples(st.sampled_from(["0", "30", "*/10"]), field(0, 59), field(0, 4), st.just("*"), st.just("*"), WEEKDAYS),
).map(" ".join)
ZONES = st.sampled_from(
    [
        *["UTC", "Europe/Berlin", "Europe/Dublin", "Africa/Casablanca", "America/New_York", "America/Sao_Paulo"],
        *["America/St_Johns", "Asia/Beirut", "Asia/Kathmandu", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"],
    ]
)
FIRST, LAST = 1_500_000_000_000, 2_000_000_000_000


def edges(zone: str) -> list[int]:
    """When its clocks are set, some years of it."""
    info, found = ZoneInfo(zone), list[int]()
    offset = (EPOCH + timedelta(milliseconds=FIRST)).astimezone(info).utcoffset()
    for at in range(FIRST, LAST, DAY):
        following = (EPOCH + timedelta(milliseconds=at + DAY)).astimezone(info).utcoffset()
        if following != offset:
            low, high = at, at + DAY
            while high - low > 1000:
                middle = (low + high) // 2
                before = (EPOCH + timedelta(milliseconds=middle)).astimezone(info).utcoffset() == offset
                low, high = (middle, high) if before else (low, middle)
            found.append(high)
            offset = following
    return found


_EDGES: dict[str, list[int]] = {}


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, int]:
    zone = draw(ZONES)
    if zone not in _EDGES:
        _EDGES[zone] = edges(zone)
    starts = st.integers(FIRST, LAST)
    if _EDGES[zone]:  # half of them on both days of the year
        near = st.tuples(st.sampled_from(_EDGES[zone]), st.integers(-5 * 3_600_000, 3 * 3_600_000)).map(sum)
        starts = st.one_of(starts, near)
    return draw(EXPRESSIONS), zone, draw(starts)


def walked(expression: str, zone: tzinfo, start: int, count: int) -> list[int]:
    """What cronsim says, step by step; without what lies before what it said last, or before the start."""
    found, last = list[int](), start
    for at in CronSim(expression, (EPOCH + timedelta(milliseconds=start)).astimezone(zone)):
        ms = (at - EPOCH) // timedelta(milliseconds=1)
        if ms > last:
            found.append(ms)
            last = ms
        if len(found) == count:
            break
    return found


def is_walked(case: tuple[str, str, int]) -> None:
    expression, zone, start = case
    try:
        CronSim(expression, EPOCH)
    except CronSimError:
        with pytest.raises(ValueError, match="field"):
            check(expression)
        return
    wanted = walked(expression, zone_named(zone), start, 6)
    assume(wanted)
    cron, at, found = Cron(expression, zone), start, list[int]()
    while len(found) < len(wanted) and (following := cron.after(at)) is not None:
        assert following > at, "it never goes back"
        found.append(following)
        at = following
    assert found == wanted


class TestAgainstCronsim:
    @pytest.mark.slow
    @example(("30 2 * * *", "Europe/Berlin", 1_774_659_600_000))
    @example(("30 2 * * *", "Europe/Berlin", 1_792_890_600_000))
    @example(("45 2 * * *", "Europe/Berlin", 1_792_891_800_000))
    @settings(max_examples=500, deadline=None, derandomize=True)
    @given(cases())
    def test_as_it_is_walked(self, case: tuple[str, str, int]) -> None:
        is_walked(case)

    @pytest.mark.long
    @settings(max_examples=10_000, deadline=None)
    @given(cases())
    def test_ten_thousand(self, case: tuple[str, str, int]) -> None:
        is_walked(case)
