"""I14 from the bare tables: each cursor has moved by what became of the messages that it passed."""

from collections import Counter

from support.stores import Stage


def conserves(stage: Stage) -> None:
    """What is parked counts each time that a cursor passes it, and what a seek has moved is an entry of its own."""
    in_hands = Counter[tuple[int, int]]()
    for group_id, queue_id, outcome in stage.tables.rows("SELECT group_id, queue_id, outcome FROM claim"):
        in_hands[group_id, queue_id] += bytes(outcome).count(0)
    for group_id, queue_id, left in stage.tables.rows(
        "SELECT group_id, queue_id, position - origin - acked - dead - retried - expired - skipped - parked - sought"
        " FROM `cursor`"
    ):
        assert left == in_hands[group_id, queue_id], (group_id, queue_id)
