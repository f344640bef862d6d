"""The key that a client brings."""

from pathlib import Path

import httpx
import pytest

from support.blocking import KINDS, client_of
from support.scripted_server import Answer, ScriptedServer, problem
from tarry.client import Forbidden, Tarry
from tarry.client.credentials import authorization, key_from

KEY = "tarry_" + "k" * 43


def brought(script: ScriptedServer) -> list[str | None]:
    return [request.headers.get("Authorization") for request in script.requests]


def test_none(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"topics": [], "cursor": None}))
    tarry.topics()
    assert brought(script) == [None]


@pytest.mark.parametrize("kind", KINDS)
def test_from_the_environment(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    monkeypatch.setenv("TARRY_KEY_FILE", str(file))
    script.say(Answer(200, {"topics": [], "cursor": None}))
    with client_of(kind, script.url) as tarry:
        tarry.topics()
        if kind == "threads":
            assert KEY not in repr(tarry) + repr(vars(tarry))
    assert brought(script) == [f"Bearer {KEY}"]


def test_given_is_before_the_environment(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARRY_KEY", "another")
    script.say(Answer(201, {"id": "1", "topic": "t", "state": "published", "deliver_at": "2026-01-01T00:00:00.000Z"}))
    with Tarry(script.url, key=KEY) as tarry:
        tarry.publish("t", 1)
    assert brought(script) == [f"Bearer {KEY}"]


def test_a_client_of_the_users_own_brings_its_own(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARRY_KEY", KEY)
    script.say(*[Answer(200, {"topics": [], "cursor": None})] * 2)
    with httpx.Client(headers={"Authorization": "Basic eDp5"}) as own:
        Tarry(script.url, client=own).topics()
        Tarry(script.url, client=own, key=KEY).topics()
    assert brought(script) == ["Basic eDp5", f"Bearer {KEY}"]


def test_it_is_in_no_error(script: ScriptedServer) -> None:
    script.say(problem(401, detail="there is no such key, or it was revoked"))
    with Tarry(script.url, key=KEY) as tarry, pytest.raises(Forbidden, match="no such key") as error:
        tarry.topics()
    assert KEY not in repr(error.value) + str(error.getrepr(style="long", showlocals=False))


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "schlüssel", "k" * 5000])
def test_what_is_no_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="tarry keys create") as error:
        authorization(key, own=True)
    assert not key or key not in str(error.value)


def test_the_environment(tmp_path: Path) -> None:
    assert key_from({}) is None
    assert key_from({"TARRY_KEY": ""}) is None
    assert key_from({"TARRY_KEY": "k"}) == "k"
    with pytest.raises(ValueError, match="both set"):
        key_from({"TARRY_KEY": "k", "TARRY_KEY_FILE": "/x"})
    with pytest.raises(ValueError, match=r"TARRY_KEY_FILE: .*missing cannot be read: No such file or directory"):
        key_from({"TARRY_KEY_FILE": str(tmp_path / "missing")})
