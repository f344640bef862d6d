"""Sessions: sealed so that any server of the store opens them, and nobody makes one without the key."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing
from attrs import define

from support.failing import failing
from support.spied import NOW, SpiedServer, spied
from support.stores import SQLiteTables
from tarry.service.access import sessions
from tarry.service.access.keyring import Holder, Keyring, NoKey
from tarry.service.access.scopes import Scopes
from tarry.service.access.sessions import LASTS, Sessions
from tarry.service.access.tokens import digest, make_token
from tarry.store.errors import Unavailable
from tarry.store.operating import keys
from tarry.store.operating.keys import Key

TOKEN = make_token()


@define
class House:
    """Two servers on one store: each with a keyring of its own."""

    server: SpiedServer
    here: Sessions
    there: Sessions
    rings: tuple[Keyring, Keyring]
    path: Path

    async def refresh(self) -> None:
        for ring in self.rings:
            await ring.refresh()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with spied(tmp_path / "tarry.db") as server:
        await server.store.write(keys.add, Key("me", digest(TOKEN), ("read:*",), 0))
        rings = (Keyring(server.store, always=True), Keyring(server.store, always=True))
        clock = server.node.clock
        house = House(
            server,
            Sessions(rings[0], clock, server.store),
            Sessions(rings[1], clock, server.store),
            rings,
            tmp_path / "tarry.db",
        )
        await house.refresh()
        yield house


async def test_any_server_opens_it(house: House) -> None:
    text, begun = house.here.begin(TOKEN.encode())
    found = await house.there.find(text)
    assert (found.holder.name, found.until, found.csrf) == ("me", NOW + LASTS, begun.csrf)
    assert TOKEN not in text
    assert len(text) < 200


async def test_two_sessions_of_a_key_have_nothing_in_common_but_its_name(house: House) -> None:
    (one, first), (two, second) = (house.here.begin(TOKEN.encode()) for _ in range(2))
    assert one != two
    assert first.csrf != second.csrf


async def test_it_ends_by_the_clock(house: House) -> None:
    text, _ = house.here.begin(TOKEN.encode())
    house.server.ms = NOW + LASTS - 1
    assert (await house.here.find(text)).holder.name == "me"
    house.server.ms = NOW + LASTS
    with pytest.raises(NoKey, match="over"):
        await house.here.find(text)


async def test_it_ends_with_its_key(house: House) -> None:
    text, _ = house.here.begin(TOKEN.encode())
    await house.server.revoke_key("me")
    await house.refresh()
    with pytest.raises(NoKey):
        await house.there.find(text)


async def test_each_changed_character_ends_it(house: House) -> None:
    text, _ = house.here.begin(TOKEN.encode())
    for place in range(len(text) - 1):  # the last may hold bits that count for nothing
        changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        with pytest.raises(NoKey):
            await house.here.find(changed)


@pytest.mark.parametrize("text", ["", "x", "ü", "=", "A" * 10_000, "AAAAAAAAAAAA", "....", "A" * 60])
async def test_what_is_none(house: House, text: str) -> None:
    with pytest.raises(NoKey):
        await house.here.find(text)


async def test_who_reads_the_store_makes_none(house: House) -> None:
    """The store has the digest. A session sealed by it, around another text than the key's, opens nothing."""
    stolen = Holder("me", Scopes(["read:*"]), digest(TOKEN))

    store = house.server.store

    class Thief(Keyring):
        def find(self, token: bytes | None) -> Holder:
            return stolen

    forged, _ = Sessions(Thief(store, always=True), house.server.node.clock, store).begin(make_token().encode())
    with pytest.raises(NoKey):
        await house.here.find(forged)


async def test_while_the_store_is_away_nobody_can_tell(house: House) -> None:
    text, _ = house.here.begin(TOKEN.encode())
    fresh = Keyring(house.server.store, always=True)
    fresh._read_at -= 60
    with pytest.raises(Unavailable):
        await Sessions(fresh, house.server.node.clock, house.server.store).find(text)
    assert sessions.LASTS == 12 * 3_600_000


async def test_signed_out_it_is_over_at_every_server(house: House, autojump_clock: trio.testing.MockClock) -> None:
    (text, _), (other, _) = (house.here.begin(TOKEN.encode()) for _ in range(2))
    for server in (house.here, house.there):
        assert (await server.find(text)).holder.name == "me"
    await house.here.end(text)
    with pytest.raises(NoKey, match="over"):
        await house.here.find(text)
    await trio.sleep(3)
    with pytest.raises(NoKey, match="over"):
        await house.there.find(text)
    again = Sessions(house.rings[1], house.server.node.clock, house.server.store)
    with pytest.raises(NoKey, match="over"):
        await again.find(text)
    for server in (house.here, house.there, again):
        assert (await server.find(other)).holder.name == "me", "nobody else is"


async def test_twice_and_what_is_none(house: House) -> None:
    text, _ = house.here.begin(TOKEN.encode())
    await house.here.end(text)
    await house.here.end(text)
    await house.there.end(text)
    assert written(house) == 1
    for none in ("", "x", text[:-4], text[:20] + "AAAA" + text[24:], "A" * 10_000):
        await house.here.end(none)
    await house.server.store.write(keys.revoke, "me", 1)
    of_a_key_that_is_revoked, _ = house.here.begin(TOKEN.encode())
    await house.refresh()
    await house.here.end(of_a_key_that_is_revoked)
    assert written(house) == 1, "who has no session writes nothing"


def written(house: House) -> int:
    tables = SQLiteTables(house.path)
    ((rows,),) = tables.rows("SELECT COUNT(*) FROM idempotency")
    tables.close()
    return int(rows)


async def test_what_is_written_goes_with_its_time(house: House) -> None:
    texts = [house.here.begin(TOKEN.encode())[0] for _ in range(200)]
    for text in texts:
        await house.here.end(text)
    house.server.ms += LASTS - 1
    await house.server.node.sweeps.idempotency_keys()
    assert written(house) == 200
    house.server.ms += 2
    await house.server.node.sweeps.idempotency_keys()
    assert written(house) == 0
    with pytest.raises(NoKey):
        await house.there.find(texts[0])


async def test_while_the_store_is_away_one_that_is_known_holds(
    house: House, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    (known, _), (strange, _) = (house.here.begin(TOKEN.encode()) for _ in range(2))
    await house.here.find(known)
    await trio.sleep(4)
    for verb in ("read", "write"):
        monkeypatch.setattr(house.server.store.backend, verb, failing(Unavailable("away")))
    assert (await house.here.find(known)).holder.name == "me"
    with pytest.raises(Unavailable):
        await house.here.find(strange)
    with pytest.raises(Unavailable):
        await house.here.end(known)
    assert (await house.here.find(known)).holder.name == "me", "it was not signed out, and that was said"
