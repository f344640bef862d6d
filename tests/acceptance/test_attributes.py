"""What a message has beside its body, through the doors that users have: all that spell it are held against the
declaration, and each goes in and comes out again."""

import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tarry.client import AsyncTarry, Draft, Message, Tarry
from tarry.client.records import Fields, TimerFields
from tarry.pipeline.sending.column_mapping import ColumnMapping
from tarry.service.http import answers, requests
from tarry.service.schedules.spec import Spec
from tarry.store.content import ATTRIBUTES, LABELS, NUMBERS
from tarry.testing import EmbeddedServer

FULL = datetime.now(UTC).replace(microsecond=0)


def one_of(name: str) -> Any:
    """A value as the client takes and gives it."""
    if name == "headers":
        return {"a": "ü"}
    return FULL + timedelta(days=9) if name in NUMBERS else "x/y" if name == "content_type" else f"the {name} 🐢"


ALONE: list[dict[str, Any]] = [{name: one_of(name)} for name in ATTRIBUTES]
ALL = [*ALONE, {name: one_of(name) for name in ATTRIBUTES}, {}]


def fields(of: Any) -> set[str]:
    if isinstance(of, type):
        return {*(of.__struct_fields__ if issubclass(of, msgspec.Struct) else of.__annotations__)}
    return {*inspect.signature(of).parameters}


@pytest.mark.parametrize(
    ("of", "without"),
    [
        (requests.Message, ()),
        (requests.Timed, ("key",)),
        (requests.PutSchedule, ("expires_at",)),
        (Spec, ("expires_at",)),
        (answers.Content, ()),
        (Draft, ()),
        (Message, ()),
        (ColumnMapping, ()),
        (Tarry.publish, ()),
        (AsyncTarry.publish, ()),
        (Tarry.set_timer, ()),
        (Tarry.put_schedule, ("expires_at",)),
    ],
    ids=lambda of: getattr(of, "__qualname__", ""),
)
def test_who_spells_them_has_them_all(of: Any, without: tuple[str, ...]) -> None:
    assert {*ATTRIBUTES} - fields(of) == {*without}


def test_an_outbox_has_them_all() -> None:
    assert {*ATTRIBUTES} == {*ATTRIBUTES} & {*Fields.__optional_keys__}
    assert TimerFields.__optional_keys__ == Fields.__optional_keys__ - {"key"}


def body(said: dict[str, Any]) -> Any:
    """A type is of bytes."""
    return b"\x00" if "content_type" in said else {"a": 1}


def told(message: Any) -> dict[str, Any]:
    return {name: value for name in ATTRIBUTES if (value := getattr(message, name))}


def shown(document: dict[str, Any]) -> dict[str, Any]:
    """The same of a document of the server's."""
    found = {name: document[name] for name in ATTRIBUTES if document.get(name) is not None}
    return found | {name: datetime.fromisoformat(found[name]) for name in NUMBERS if name in found}


@pytest.mark.parametrize("delay", [None, "1h"])
def test_all_the_way(delay: str | None) -> None:
    """Published, handed out, failed, handed out again, dead, redriven, replayed: alone, and many together."""
    with EmbeddedServer(ladder=["1s"]) as server, Tarry(server.url) as tarry:
        wanted: dict[str, dict[str, Any]] = {}

        def gone_on(by: str) -> None:
            server.clock.advance(by)

        def handed_out(*, fail: bool) -> dict[str, dict[str, Any]]:
            came: dict[str, dict[str, Any]] = {}
            while len(came) < len(wanted):
                claim = tarry.claim("orders", "billing", max=100, wait="5s")
                assert claim is not None, "there is nothing more"
                came |= {message.id: told(message) for message in claim.messages}
                if fail:
                    tarry.fail(claim)
                else:
                    tarry.ack(claim)
            return came

        tarry.put_topic("orders")
        tarry.put_group("orders", "billing")
        for said in ALL:
            wanted[tarry.publish("orders", body(said), delay=delay, **said).id] = said
        drafts = [Draft(body=body(said), delay=delay, **said) for said in ALL]
        wanted |= {one.id: said for one, said in zip(tarry.publish_many("orders", drafts), ALL, strict=True)}
        assert {id_: shown(tarry.message(id_)) for id_ in wanted} == wanted
        if delay is not None:
            gone_on(delay)
        assert handed_out(fail=True) == wanted
        gone_on("2s")
        assert handed_out(fail=True) == wanted
        assert {one.message.id: told(one.message) for one in tarry.dead("orders", "billing")} == wanted
        tarry.redrive("orders", "billing")
        assert handed_out(fail=False) == wanted
        assert {id_: shown(tarry.message(id_)) for id_ in wanted} == wanted
        assert {one.id: told(one) for one in tarry.pull("orders", 0, 0, max=100).messages} == wanted


def test_of_a_timer_and_of_a_schedule() -> None:
    with EmbeddedServer() as server, Tarry(server.url) as tarry:
        tarry.put_topic("orders")
        for said in ALL:
            rest = {name: value for name, value in said.items() if name != "key"}
            timer = tarry.set_timer("orders", "order-7", body(said), delay="1h", **rest)
            assert shown(tarry.message(timer.id)) == rest | {"key": "order-7"}
        said = {name: one_of(name) for name in LABELS}
        tarry.put_schedule("daily", topic="orders", body=1, every="1h", **said)
        ran = tarry.run_schedule("daily")
        assert {name: tarry.message(ran)[name] for name in LABELS} == said
