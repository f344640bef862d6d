"""What a key's scopes reach."""

import pytest

from tarry.service.access.scopes import Scopes, wrong_scope


@pytest.mark.parametrize(
    ("scope", "verb", "topic", "group", "reached"),
    [
        ("publish:orders", "publish", "orders", None, True),
        ("publish:orders", "publish", "orders2", None, False),
        ("publish:orders", "publish", "order", None, False),
        ("publish:orders", "read", "orders", None, False),
        ("publish:orders*", "publish", "orders", None, True),
        ("publish:orders*", "publish", "orders.eu", None, True),
        ("publish:orders*", "publish", "Orders", None, False),
        ("publish:*", "publish", "anything", None, True),
        ("consume:orders/billing", "consume", "orders", "billing", True),
        ("consume:orders/billing", "consume", "orders", "billing2", False),
        ("consume:orders/billing", "consume", "orders", None, True),
        ("consume:orders/*", "consume", "orders", "billing", True),
        ("consume:o*/b*", "consume", "orders", "billing", True),
        ("consume:o*/b*", "consume", "orders", "returns", False),
        ("consume:o*/b*", "consume", "parcels", "billing", False),
        ("admin", "consume", "orders", "billing", True),
        ("admin", "operate", "orders", None, True),
        ("read:*x", "read", "x", None, False),
        ("later:orders", "read", "orders", None, False),
    ],
)
def test_reach(scope: str, verb: str, topic: str, group: str | None, reached: bool) -> None:
    assert Scopes([scope]).reach(verb, topic, group) is reached


def test_topic_and_group_are_of_one_scope() -> None:
    scopes = Scopes(["consume:a/x", "consume:b/y"])
    assert scopes.reach("consume", "a", "x")
    assert scopes.reach("consume", "b", "y")
    assert not scopes.reach("consume", "a", "y")


def test_reach_all() -> None:
    assert Scopes(["read:*"]).reach_all("read")
    assert Scopes(["consume:*/*"]).reach_all("consume")
    assert Scopes(["admin"]).reach_all("read")
    assert not Scopes(["read:a*", "publish:*"]).reach_all("read")
    assert not Scopes(["consume:*/a"]).reach_all("consume")


def test_have() -> None:
    assert Scopes(["consume:a/b"]).have("consume")
    assert not Scopes(["consume:a/b"]).have("publish")
    assert not Scopes([]).have("publish")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pulish:x", "did you mean publish"),
        ("publish", "is no scope"),
        ("publish:", "a name is"),
        ("publish:a b", "a name is"),
        ("publish:a*b", "a name is"),
        ("publish:a/b", "only consume is of a group"),
        ("consume:orders", "write consume:orders/GROUP"),
        ("consume:orders/", "a name is"),
        ("consume:/x", "a name is"),
        ("admin:x", "is no scope"),
        ("", "is no scope"),
        ("read:é", "a name is"),
        ("read:" + "x" * 250, "a name is"),
    ],
)
def test_wrong(text: str, told: str) -> None:
    wrong = wrong_scope(text)
    assert wrong is not None
    assert told in wrong


@pytest.mark.parametrize("text", ["admin", "publish:a*", "read:*", "consume:*/*", "consume:a.b/c-d*", "operate:_"])
def test_right(text: str) -> None:
    assert wrong_scope(text) is None
