"""Keys, and whose a client is."""

from functools import partial

import pytest

from support.stores import SECOND, START, Stage
from tarry.store.errors import DuplicateKey, SchemaError
from tarry.store.groups import client_owners
from tarry.store.groups.client_owners import UNUSED
from tarry.store.migrations import newest
from tarry.store.opening import open_guest
from tarry.store.operating import keys
from tarry.store.operating.keys import Key

ONE = Key("billing", b"\0\1'\\" * 8, ("publish:orders*", "consume:orders/billing"), START)
TWO = Key("Billing", b"\xff" * 32, ("admin",), START + 1)


async def test_they_come_back_as_they_were(stage: Stage) -> None:
    assert await stage.store.read(keys.all_keys) == []
    for key in (ONE, TWO):
        await stage.store.write(keys.add, key)
    assert await stage.store.read(keys.all_keys) == [TWO, ONE]


async def test_a_name_is_given_once(stage: Stage) -> None:
    await stage.store.write(keys.add, ONE)
    await stage.store.write(keys.revoke, "billing", START)
    with pytest.raises(DuplicateKey):
        await stage.store.write(keys.add, Key("billing", bytes(32), ("admin",), START))
    (key,) = await stage.store.read(keys.all_keys)
    assert (key.digest, key.revoked_at) == (ONE.digest, START)


async def test_revoking(stage: Stage) -> None:
    await stage.store.write(keys.add, ONE)
    assert await stage.store.write(keys.revoke, "Billing", START) == "unknown"
    assert await stage.store.write(keys.revoke, "billing", START + 5) == "revoked"
    assert await stage.store.write(keys.revoke, "billing", START + 9) == "before"
    (key,) = await stage.store.read(keys.all_keys)
    assert key.revoked_at == START + 5


async def test_beside_the_server(stage: Stage) -> None:
    """The stage holds the store as a server does."""
    guest = await open_guest(stage.dsn)
    await guest.write(partial(keys.add, key=ONE))
    assert abs(await guest.now() - await stage.store.backend.now()) < 60 * SECOND
    assert await stage.store.read(keys.all_keys) == await guest.read(keys.all_keys) == [ONE]
    await guest.aclose()
    await stage.store.write(keys.add, TWO)  # nothing that the server holds was let go


async def test_a_store_of_another_version(stage: Stage) -> None:
    stage.tables.rows("UPDATE migration SET version = version + 100")
    try:
        with pytest.raises(SchemaError, match="newer than this program"):
            await open_guest(stage.dsn)
        stage.tables.rows("UPDATE migration SET version = version - 101")
        with pytest.raises(SchemaError, match="made before the first release"):
            await open_guest(stage.dsn)
    finally:
        stage.tables.rows(f"UPDATE migration SET version = {newest()}")


async def take(stage: Stage, client: str, key: str, *alive: str) -> str:
    return await stage.store.write(client_owners.take, client, key, alive, stage.now)


async def test_a_client_belongs_to_the_key_that_used_it_first(stage: Stage) -> None:
    assert await take(stage, "c", "one", "one", "two") == "one"
    assert await take(stage, "c", "two", "one", "two") == "one"
    assert await take(stage, "c", "one", "one", "two") == "one"
    assert await take(stage, "C", "two", "one", "two") == "two"


async def test_until_the_key_is_revoked(stage: Stage) -> None:
    await take(stage, "c", "one", "one", "two")
    assert await take(stage, "c", "two", "two") == "two"
    assert await take(stage, "c", "one", "one", "two") == "two"


async def test_until_it_is_not_used_any_more(stage: Stage) -> None:
    await take(stage, "c", "one", "one", "two")
    stage.now += UNUSED // 2
    await take(stage, "c", "one", "one", "two")
    stage.now += UNUSED - 1
    assert await take(stage, "c", "two", "one", "two") == "one"
    assert await stage.store.write(client_owners.forget_unused, stage.now) == 0
    stage.now += 2
    assert await stage.store.write(client_owners.forget_unused, stage.now) == 1
    assert stage.count("client_owner") == 0
    assert await take(stage, "c", "two", "one", "two") == "two"


async def test_until_it_deregisters(stage: Stage) -> None:
    await take(stage, "c", "one", "one", "two")
    await stage.store.write(client_owners.leave, "c")
    assert await take(stage, "c", "two", "one", "two") == "two"
