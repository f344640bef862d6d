"""What a specification says: fields that are refused, intervals against arithmetic, misfires, jitter."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.service.schedules.rule import Every, Misfire, Rule, judge
from tarry.service.schedules.spec import Plan, Spec, WrongSpec, check_overlap, plan, plan_of
from tarry.store.schedules.course import Judgement

NOW = 1_700_000_000_000
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def planned(**said: Any) -> Plan:
    return plan("daily", msgspec.convert({"topic": "orders"} | said, Spec), NOW)


class TestRefusal:
    @pytest.mark.parametrize(
        ("said", "pointer", "reason"),
        [
            ({}, "/cron", "say cron or every, one of them"),
            ({"cron": "0 9 * * *", "every": "1m"}, "/cron", "say cron or every, not both"),
            ({"cron": "0 25 * * *"}, "/cron", "the hour field '25'"),
            ({"cron": "0 9 * * *", "timezone": "Europe/Berln"}, "/timezone", "did you mean 'Europe/Berlin'?"),
            ({"every": "1h", "timezone": "Europe/Berlin"}, "/timezone", "it goes with cron"),
            ({"every": "10ms"}, "/every", "it is shorter than 1000 ms"),
            ({"every": "11000d"}, "/every", "it is longer than ten years"),
            ({"every": "1y"}, "/every", "years and months have no fixed length"),
            ({"every": "1h", "starts_at": "tomorrow"}, "/starts_at", "is not a time"),
            (
                {"every": "1h", "starts_at": "2026-01-02T00:00:00Z", "ends_at": "2026-01-01T00:00:00Z"},
                "/ends_at",
                "it is before starts_at",
            ),
            ({"every": "1h", "jitter": "1h"}, "/jitter", "make it shorter"),
            ({"cron": "* * * * *", "jitter": "2m"}, "/jitter", "make it shorter"),
            ({"every": "1h", "misfire": {"later": "1h"}}, "/misfire", 'write "once", "skip" or'),
            ({"every": "1h", "misfire": {"catch_up": "x"}}, "/misfire/catch_up", "is not a duration"),
        ],
    )
    def test_names_the_field(self, said: dict[str, Any], pointer: str, reason: str) -> None:
        with pytest.raises(WrongSpec) as error:
            planned(**said)
        assert (error.value.pointer, reason in str(error.value)) == (pointer, True), str(error.value)

    @pytest.mark.parametrize(
        "said",
        [{"overlap": "skip"}, {"overlap": "queue_one"}, {"group": "billing"}, {"overlap": "allow", "group": "billing"}],
    )
    def test_overlap_and_group_go_together(self, said: dict[str, Any]) -> None:
        with pytest.raises(WrongSpec) as error:
            check_overlap(msgspec.convert({"topic": "orders"} | said, Spec))
        assert error.value.pointer == "/group"


class TestTimes:
    @given(
        st.integers(SECOND, 10**10),
        st.integers(0, 2 * NOW),
        st.one_of(st.none(), st.integers(0, 2 * NOW)),
        st.integers(1, 9),
    )
    def test_every_is_the_time_that_passes(self, interval: int, after: int, starts_at: int | None, count: int) -> None:
        times = Every(interval, NOW, 1) if starts_at is None else Every(interval, starts_at)
        first = NOW + interval if starts_at is None else starts_at
        wanted = first
        if wanted <= after:
            wanted += -(-(after - wanted + 1) // interval) * interval
        found = Rule("it", times, starts_at).upcoming(after, count)
        assert found == [wanted + nth * interval for nth in range(count)]

    def test_from_when_until_when(self) -> None:
        rule = planned(cron="0 9 * * *", starts_at="2026-05-01T09:00:00Z", ends_at="2026-05-02T09:00:00Z").rule
        assert rule.upcoming(0, 9) == [1_777_626_000_000, 1_777_712_400_000]
        assert rule.upcoming(0, 9, until=1_777_626_000_000) == [1_777_626_000_000]
        assert rule.after(1_777_712_400_000) is None

    def test_what_is_kept_is_read(self) -> None:
        text = msgspec.json.encode({"topic": "orders", "every": "1m", "body": {"a": 1}, "misfire": "skip"})
        assert plan_of("daily", text, NOW) == planned(every="1m", misfire="skip")

    @given(st.integers(0, 2 * NOW), st.integers(1, HOUR))
    def test_jitter_is_of_the_name_and_the_time(self, fire_at: int, jitter: int) -> None:
        rule = Rule("it", Every(HOUR, NOW), jitter=jitter)
        assert fire_at <= rule.due(fire_at) < fire_at + jitter
        assert rule.due(fire_at) == Rule("it", Every(HOUR, 0), jitter=jitter).due(fire_at)

    def test_jitter_spreads(self) -> None:
        dues = {(Rule(f"it-{nth}", Every(HOUR, NOW), jitter=HOUR).due(NOW) - NOW) // MINUTE for nth in range(1000)}
        assert len(dues) == 60, "in each minute of the hour are some of a thousand"


class TestMisfire:
    rule = Rule("it", Every(MINUTE, NOW))

    @pytest.mark.parametrize("said", ["once", "skip", {"catch_up": "1h"}])
    def test_a_little_late_is_none(self, said: Any) -> None:
        misfire = planned(every="1m", misfire=said).misfire
        assert judge(self.rule, misfire, NOW, NOW + MINUTE) == Judgement(True, NOW + MINUTE)

    def test_once_for_all(self) -> None:
        assert planned(every="1m").misfire == Misfire()
        following = NOW + 2 * MINUTE + HOUR
        assert judge(self.rule, Misfire(), NOW, following - 30 * SECOND) == Judgement(
            True, following, following - 30 * SECOND + 1
        )

    def test_skip_leaves_out_what_is_late(self) -> None:
        misfire = planned(every="1m", misfire="skip").misfire
        now = NOW + HOUR + 30 * SECOND
        assert judge(self.rule, misfire, NOW, now) == Judgement(False, NOW + HOUR, now - MINUTE)
        assert judge(self.rule, misfire, NOW + HOUR, now).sent

    def test_catching_up_within_the_window(self) -> None:
        misfire = planned(every="1m", misfire={"catch_up": "10m"}).misfire
        now, at, fired = NOW + HOUR, NOW, list[int]()
        while at <= now:
            step = judge(self.rule, misfire, at, now)
            fired += [at] * step.sent
            assert step.next_at is not None
            at = step.next_at
        assert fired == [NOW + HOUR - nth * MINUTE for nth in range(10, -1, -1)]

    @pytest.mark.parametrize("misfire", [Misfire(), Misfire(once=False)])
    def test_one_alone_has_missed_no_other(self, misfire: Misfire) -> None:
        now = NOW + MINUTE + 30 * SECOND
        assert judge(Rule("it", Every(HOUR, NOW)), misfire, NOW, now) == Judgement(misfire.once, NOW + HOUR)
        last = Rule("it", Every(MINUTE, NOW), ends_at=NOW)
        assert judge(last, misfire, NOW, now) == Judgement(misfire.once, None)

    @pytest.mark.parametrize("misfire", [Misfire(), Misfire(once=False)])
    def test_all_that_were_left_are_missed(self, misfire: Misfire) -> None:
        rule = Rule("it", Every(MINUTE, NOW), ends_at=NOW + 5 * MINUTE)
        sent, next_at, until = judge(rule, misfire, NOW, NOW + HOUR)
        assert (sent, next_at) == (misfire.once, None)
        assert until is not None
        assert NOW + 5 * MINUTE < until <= NOW + HOUR + 1

    def test_lateness_is_that_of_the_message(self) -> None:
        rule = Rule("it", Every(HOUR, NOW), jitter=30 * MINUTE)
        due = rule.due(NOW)
        assert due > NOW + MINUTE, "or the test shows nothing"
        assert judge(rule, Misfire(once=False), NOW, due + MINUTE) == Judgement(True, NOW + HOUR)
        assert judge(rule, Misfire(once=False), NOW, due + MINUTE + 1) == Judgement(False, NOW + HOUR)
