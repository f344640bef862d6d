"""The consumer's state, with a clock of the test's."""

from support.claimed import a_claim, a_message
from tarry.client.holds import Hold, Holds, Settlement
from tarry.client.records import Claim


def claim_of(*ids: str, size: int = 0) -> Claim:
    return a_claim("c" + ids[0], *map(a_message, ids), size=size)


def told(settlements: list[Settlement]) -> list[tuple[str, tuple[str, ...]]]:
    return [(settlement.verb, settlement.ids) for settlement in settlements]


def fail(hold: Hold, id_: str) -> Settlement:
    return Settlement(hold, "fail", (id_,), "no")


def test_acks_wait_for_the_end_of_their_claim() -> None:
    holds = Holds(60)
    hold = holds.add(claim_of("1", "2"), 0)
    assert holds.ack(hold, "1", 0.01)
    assert holds.take_settlements(0.02, hurry=False) == []
    assert holds.next_settlement_at() == 0.11
    assert holds.ack(hold, "2", 0.03)
    assert told(holds.take_settlements(0.03, hurry=False)) == [("ack", ("1", "2"))]
    assert holds.take_settlements(9, hurry=True) == []
    assert holds.next_settlement_at() is None


def test_acks_do_not_wait_longer_than_the_linger() -> None:
    holds = Holds(60)
    hold = holds.add(claim_of("1", "2", "3"), 0)
    holds.ack(hold, "1", 1.0)
    assert holds.take_settlements(1.09, hurry=False) == []
    assert told(holds.take_settlements(1.1, hurry=False)) == [("ack", ("1",))]
    holds.ack(hold, "3", 2.0)
    assert told(holds.take_settlements(2.1, hurry=False)) == [("ack", ("3",))]


def test_in_a_hurry_acks_do_not_wait() -> None:
    holds = Holds(60)
    hold = holds.add(claim_of("1", "2"), 0)
    holds.ack(hold, "1", 0)
    assert told(holds.take_settlements(0, hurry=True)) == [("ack", ("1",))]


def test_a_fail_goes_at_once_behind_the_acks_of_its_claim() -> None:
    holds = Holds(60)
    hold, other = holds.add(claim_of("1", "2", "3"), 0), holds.add(claim_of("4", "5"), 0)
    holds.ack(hold, "1", 0)
    holds.ack(other, "4", 0)
    assert holds.fail(fail(hold, "2"))
    assert told(holds.take_settlements(0, hurry=False)) == [("ack", ("1",)), ("fail", ("2",))]


def test_a_message_is_settled_once() -> None:
    holds = Holds(60)
    hold = holds.add(claim_of("1"), 0)
    assert holds.fail(fail(hold, "1"))
    assert not holds.ack(hold, "1", 0)
    assert not holds.fail(fail(hold, "1"))
    assert told(holds.take_settlements(0, hurry=True)) == [("fail", ("1",))]


def test_leases_are_renewed_at_a_third_while_something_is_open() -> None:
    holds = Holds(60)
    hold = holds.add(claim_of("1"), 100)
    assert (hold.expires_at, holds.next_renewal_at()) == (160, 120)
    assert holds.due_for_renewal(119.9) == []
    assert holds.due_for_renewal(120) == [hold]
    holds.renewed(hold, 121)
    assert (hold.expires_at, holds.next_renewal_at()) == (181, 141)
    holds.not_renewed(hold, 141)
    assert (hold.expires_at, holds.next_renewal_at()) == (181, 147)
    holds.ack(hold, "1", 150)
    assert holds.next_renewal_at() is None


def test_a_lost_claim_is_forgotten() -> None:
    holds = Holds(60)
    hold = holds.add(claim_of("1", "2"), 0)
    holds.ack(hold, "1", 0)
    assert holds.lose(hold) == 2, "the ack of the first was not sent"
    assert hold.lost
    assert not holds.ack(hold, "2", 0)
    assert holds.take_settlements(9, hurry=True) == []


def test_everything_open_goes_back_uncounted_in_order() -> None:
    holds = Holds(60)
    hold = holds.add(claim_of("1", "2", "3"), 0)
    holds.ack(hold, "2", 0)
    holds.give_back()
    acks, back = holds.take_settlements(0, hurry=True)
    assert told([acks, back]) == [("ack", ("2",)), ("fail", ("1", "3"))]
    assert (back.count, back.retry_after) == (False, 0)


def test_what_is_held_is_counted() -> None:
    holds = Holds(60)
    hold = holds.add(claim_of("1", "2", "3", size=301), 0)
    assert (holds.messages, holds.bytes) == (3, 300)
    holds.ack(hold, "1", 0)
    assert (holds.messages, holds.bytes) == (2, 200)
    holds.lose(hold)
    assert (holds.messages, holds.bytes) == (0, 0)
