"""Which rows a task reads."""

from tarry.pipeline.source.facts import COUNTERS, Cursor, Facts, Queue
from tarry.pipeline.source.spans import Span, bundle, ends, head, plan


def facts(*ends: int, deliveries: int = 0, floor: int = 0, acked: int = 0) -> Facts:
    """A topic with a queue per end; a group with one cursor."""
    queues = {i: Queue(i, 1, 0, i, end, 0, 0, floor) for i, end in enumerate(ends, 1)}
    counters = dict.fromkeys(COUNTERS, 0) | {"next_delivery": deliveries, "acked": acked}
    return Facts({1: "orders"}, {7: (1, "billing")}, queues, (Cursor(7, 1, counters),), {})


def ranges(spans: list[Span]) -> list[tuple[str, int, int]]:
    return [(span.mark, span.first, span.last) for span in spans]


def test_ranges_follow_one_another_from_the_mark_to_the_end() -> None:
    spans = plan("messages", facts(600_000, 10, 5), {"1": 7, "3": 5})
    assert ranges(spans) == [("1", 7, 250_007), ("1", 250_007, 500_007), ("1", 500_007, 600_000), ("2", 0, 10)]
    assert ranges(plan("messages", facts(10, 10), {"1": 3}, {"1": 5})) == [("1", 3, 5)]
    assert ranges(plan("messages", facts(10, floor=4))) == [("1", 4, 10)]
    assert plan("messages", facts(10), topics=["mails"]) == []


def test_deliveries_go_by_group_and_queue() -> None:
    assert ranges(plan("deliveries", facts(1, deliveries=9), {"7:1": 4})) == [("7:1", 4, 9)]
    assert ends("deliveries", facts(1, deliveries=9)) == {"7:1": 9}
    assert ends("messages", facts(4, floor=4)) == {"1": 4}


def test_a_step_takes_so_many_rows_and_never_nothing() -> None:
    spans = plan("messages", facts(10, 10))
    assert ranges(head(spans, 100)) == [("1", 0, 10), ("2", 0, 10)]
    assert ranges(head(spans, 13)) == [("1", 0, 10), ("2", 0, 3)]
    assert ranges(head(spans, 10)) == [("1", 0, 10)]
    assert ranges(head(plan("deliveries", facts(1, deliveries=9)), 1)) == [("7:1", 0, 1)]


def test_small_ranges_share_a_task() -> None:
    spans = plan("messages", facts(200_000, 40_000, 40_000, 300_000))
    assert [[span.mark for span in some] for some in bundle(spans)] == [["1", "2"], ["3"], ["4"], ["4"]]
    assert bundle([]) == []


def test_large_claims_count_for_what_they_hold() -> None:
    """Or a commit of a million rows would be one of a hundred million, and a rate be kept for hours before the next."""
    spans = plan("deliveries", facts(1, deliveries=10_000, acked=8_000_000))
    assert {span.last - span.first for span in spans[:-1]} == {250_000 // 800}
    (one,) = head(spans, 30_000)
    assert (one.first, one.last) == (0, 37)
    assert head(plan("deliveries", facts(1, deliveries=100, acked=100)), 50)[0].last == 50
