"""What a guard is asked and what its answer means."""

import pytest

from tarry.service.guards import question
from tarry.service.guards.declared import Guard
from tarry.service.guards.question import NO_NUMBER, TWO_ROWS, Answers, NoAnswer

GUARD = Guard("unpaid", "shop.orders", "number", "status = 'UNPAID' -- or new", "mysql://g@db/shop")


def test_the_question_holds_nothing_of_a_key_but_its_bytes() -> None:
    asked = question.question(GUARD, ["a'b", "7"], numbers=False).decode()
    assert "a'b" not in asked
    assert asked.startswith("SELECT `number`, (\nstatus = 'UNPAID' -- or new\n) IS TRUE FROM `shop`.`orders` WHERE")
    assert question.question(GUARD, ["7", "-1"], numbers=True).decode().endswith("IN (7,-1)")


def test_numbers() -> None:
    asked, rest = question.without_strangers(["7", "07", "x", "7", "-1", "", "1" * 20], numbers=True)
    assert asked == ["7", "-1"]
    assert rest == Answers(unclear=dict.fromkeys(("07", "x", "", "1" * 20), NO_NUMBER))
    assert question.without_strangers(["7", "x", "7"], numbers=False) == (["7", "x"], Answers())


def test_the_column() -> None:
    assert question.holds_numbers(GUARD, [("bigint",)])
    assert not question.holds_numbers(GUARD, [("varchar",)])
    for rows in ([], [("datetime",)]):
        with pytest.raises(NoAnswer) as error:
            question.holds_numbers(GUARD, rows)
        assert error.value.of_all


def test_answers() -> None:
    assert question.answers(["a", "b", "c"], [("a", 1), ("b", 0)]) == Answers({"a": True, "b": False, "c": False})
    assert question.answers(["7"], [(7, 1)]) == Answers({"7": True})
    assert question.answers(["a", "b"], [(b"a", 1)]) == Answers({"a": True, "b": False})


@pytest.mark.parametrize("second", [0, 1])
def test_two_rows_say_nothing_whatever_they_say(second: int) -> None:
    assert question.answers(["a", "b"], [("a", 1), ("a", second)]) == Answers({"b": False}, {"a": TWO_ROWS})


def test_a_key_written_otherwise_is_asked_for_alone() -> None:
    assert question.answers(["Order-7", "b"], [("order-7", 1), ("b", 1)]) == Answers(alone=["Order-7", "b"])
    assert question.answers(["Order-7"], [("order-7", 1)]) == Answers({"Order-7": True})
    assert question.answers(["Order-7"], [("order-7", 1), ("Order-7", 1)]) == Answers({}, {"Order-7": TWO_ROWS})
