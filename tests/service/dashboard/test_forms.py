"""Forms: what was changed is asked for and nothing else, and what is wrong is told at its field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.service.dashboard.api import Refused
from tarry.service.dashboard.forms import Field, Form, rests, share, span, whole

FORM = Form("f", "/ui/f", "Save", [Field("rate", "Rate", "5", whole), Field("ladder", "Ladder", "", rests)])
words = st.text("abc ,5", max_size=5)


def typed(**sent: str) -> Form:
    return FORM.typed(lambda name: sent.get(name.replace(".", "_"), ""))


@given(st.fixed_dictionaries(dict.fromkeys(("rate", "was_rate"), words)))
def test_what_is_as_it_was_is_not_asked_for(sent: dict[str, str]) -> None:
    asked, form = typed(**sent).asked()
    assert ("rate" in asked) == (sent["rate"] != sent["was_rate"])
    assert [(one.value, one.was) for one in form.fields] == [(sent["rate"], sent["was_rate"]), ("", "")]


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (whole, "7", 7),
        (whole, "", None),
        (whole, "-1", "-1"),
        (whole, "٢", "٢"),
        (share, "0.5", 0.5),
        (share, "", 0.0),
        (share, "nan", "nan"),
        (share, "-1", "-1"),
        (span, "30d", "30d"),
        (span, "", None),
        (rests, "1m, 5m", ["1m", "5m"]),
        (rests, "none", []),
        (rests, "", None),
        (rests, "1m,,5m", ["1m", "", "5m"]),
    ],
)
def test_what_is_typed_is_what_the_api_takes(read: Any, text: str, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize(("read", "text"), [(span, "30"), (rests, "1m, 5")])
def test_a_duration_without_a_unit_is_none(read: Any, text: str) -> None:
    with pytest.raises(ValueError, match="has no unit"):
        read(text)


def test_what_cannot_be_read_is_told_at_its_field() -> None:
    asked, form = typed(ladder="5", rate="7", was_rate="5").asked()
    assert asked == {"rate": 7}
    assert form.first_wrong == "ladder"
    assert [bool(one.wrong) for one in form.fields] == [False, True]


def test_what_the_api_says_is_told_at_its_field_or_below() -> None:
    rung = {"pointer": "/ladder/1", "detail": "too long"}
    form = typed().refused(Refused(400, {"detail": "/ladder/1: too long", "errors": [rung]}))
    assert [one.wrong for one in form.fields] == ["", "rung 2: too long"]
    assert (form.first_wrong, form.wrong) == ("ladder", "")
    other = {"pointer": "/kind", "detail": "it stays"}
    for errors in ([], [other], [rung, other]):
        form = typed().refused(Refused(409, {"detail": "it stays as it is", "errors": errors}))
        assert form.wrong == "it stays as it is", errors
