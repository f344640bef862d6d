"""Ordered topics: what is delayed comes in the order of its time, whatever is moved, stopped, killed or started, and
whichever server was told of it."""

import random
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from support.server import client_of, start_servers
from support.stores import open_tables
from support.waiting import wait_until
from tarry.client import Draft, Tarry, TooLate
from tarry.service.demo.server_process import ServerProcess

STEPS = 90
SEEDS = (1,)
FIRE = b'"fire"'
BEFORE = datetime(2000, 1, 1, tzinfo=UTC)


def now() -> datetime:
    """To the millisecond, as times are kept."""
    at = datetime.now(UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


@attrs.define
class Sent:
    """A message, when it is due, and when that was answered."""

    number: int
    order: tuple[str, str | None]
    id: str
    due: datetime
    answered: datetime
    waited: bool
    """It was not due when it was told of: then it takes its place when it falls due."""


@attrs.define
class World:
    """Servers on one store, and what they were told."""

    dsn: str
    servers: list[ServerProcess]
    dice: random.Random
    sent: list[Sent] = attrs.field(factory=list[Sent])

    def tell(self) -> Tarry:
        """A client of any that is there."""
        return Tarry(self.dice.choice(self.servers).url)

    def publish(self, topic: str, keys: list[str | None], dues: list[datetime]) -> None:
        first = len(self.sent)
        drafts = [
            Draft(body=first + nth, deliver_at=due, ordering_key=key)
            for nth, (key, due) in enumerate(zip(keys, dues, strict=True))
        ]
        with self.tell() as tarry:
            receipts = tarry.publish_many(topic, drafts)
        answered = now()
        for nth, (receipt, key, due) in enumerate(zip(receipts, keys, dues, strict=True)):
            self.sent.append(Sent(first + nth, (topic, key), receipt.id, due, answered, receipt.state == "scheduled"))

    def move(self, one: Sent, due: datetime) -> None:
        with self.tell() as tarry, suppress(TooLate):
            tarry.reschedule(one.id, deliver_at=due)
            one.due, one.answered = due, now()

    def faults(self) -> list[str]:
        """Pairs in the wrong order, once all are there: who was told before the other was due comes before it."""
        tables = open_tables(self.dsn)
        published = f"SELECT COUNT(*) FROM message WHERE body <> X'{FIRE.hex()}'"
        wait_until(lambda: tables.rows(published) == [(len(self.sent),)], 60)
        rows = tables.rows("SELECT body, queue_id, ordering_key, deliver_at FROM message ORDER BY queue_id, `offset`")
        tables.close()
        orders = defaultdict[tuple[int, bytes | None], list[Sent]](list)
        for body, queue_id, key, deliver_at in rows:
            if body == FIRE:  # its time was known from the beginning
                due = datetime.fromtimestamp(deliver_at / 1000, UTC)
                one = Sent(-1, ("a schedule", None), "", due, BEFORE, waited=True)
            else:
                one = self.sent[int(body)]
            orders[queue_id, key].append(one)
        return [
            f"{b.order}: {b.number} of {b.due} came before {a.number} of {a.due}, known since {a.answered}"
            for some in orders.values()
            for place, b in enumerate(some)
            for a in some[place + 1 :]
            if b.waited and a.due < b.due and a.answered < b.due
        ]


@pytest.fixture
def world(dsn: str, tmp_path: Path) -> Iterator[World]:
    """With one server on the embedded store, or else two."""
    names = ("a",) if dsn.startswith("sqlite") else ("a", "b")
    with start_servers(tmp_path, dsn, *names) as servers, client_of(servers[0]) as tarry:
        tarry.put_topic("accounts", ordered=True, queues=2)
        tarry.put_topic("log", ordered=True, queues=1)
        yield World(dsn, servers, random.Random(1))


@pytest.mark.parametrize("dsn", ["mariadb", "mysql"], indirect=True)
def test_two_servers_keep_the_order(world: World) -> None:
    """Both are told of messages a few milliseconds apart: long before they are due, and shortly before."""
    for ahead in (3_000, 250):
        for _ in range(3):
            begin = now() + timedelta(milliseconds=ahead)
            for number in range(40):
                due = begin + timedelta(milliseconds=5 * number)
                world.publish("accounts", ["k"], [due])
                world.publish("log", [None], [due])
    assert world.faults() == []


@pytest.mark.long
@pytest.mark.parametrize("dsn", ["mariadb", "mysql"], indirect=True)
def test_two_servers_keep_the_order_of_a_long_backlog(world: World) -> None:
    """It is older than a server looks back in what another has; and who has it waits for a transaction."""
    begin, keys, many = now() + timedelta(hours=1), 8, 100
    some: list[str | None] = [f"k{number % keys}" for number in range(many * keys)]
    world.publish("accounts", some, [begin + timedelta(seconds=number) for number in range(len(some))])
    for server in world.servers:
        assert server.stop() == 0
    tables, holder = open_tables(world.dsn), open_tables(world.dsn)
    past = int((begin - now()).total_seconds() + len(some)) * 1000
    times = f"id = id - {past << 21}, due = due - {past}, deliver_at = deliver_at - {past}"
    tables.rows(f"UPDATE delay SET {times} ORDER BY id")
    first = tables.rows(f"SELECT shard, id FROM delay ORDER BY id LIMIT {keys}")
    held = ", ".join(str(id_) for _, id_ in first)
    with closing(holder):
        holder.rows("BEGIN")
        for shard, id_ in first:
            holder.rows(f"SELECT 1 FROM delay WHERE shard = {shard} AND id = {id_} FOR UPDATE")
        with ThreadPoolExecutor() as pool:  # or the second sweeps when all is through
            list(pool.map(ServerProcess.start, world.servers))
        published = f"SELECT COUNT(*) FROM message WHERE id NOT IN ({held})"
        wait_until(lambda: tables.rows(published) == [((many - 1) * keys,)], 60)
    for key in some[:keys]:
        rows = tables.rows(f"SELECT body FROM message WHERE ordering_key = '{key}' ORDER BY `offset`")
        order = [int(body) for (body,) in rows if int(body) >= keys]
        assert order == sorted(order), "those that were held may come later, and no others"
    tables.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dsn", ["sqlite", "mariadb", "mysql"], indirect=True)
@pytest.mark.cases(1)
def test_whatever_happens_the_order_is_kept(world: World, seed: int) -> None:
    dice = world.dice = random.Random(seed)
    with world.tell() as tarry:
        for topic, key in (("log", None), ("accounts", "k")):
            tarry.put_schedule(topic, topic=topic, ordering_key=key, every="1s", jitter="500ms", body="fire")

    def soon() -> datetime:
        return now() + timedelta(milliseconds=int(dice.choice([30, 300, 3_000]) * (1 + dice.random())))

    for step in range(STEPS):
        if dice.random() < 0.6:
            many = dice.randrange(1, 9)
            keys: list[str | None] = [dice.choice(["k", "l", "m"]) for _ in range(many)]
            topic = dice.choice(["accounts", "log"])
            world.publish(topic, keys if topic == "accounts" else [None] * many, [soon() for _ in range(many)])
        if world.sent and dice.random() < 0.4:
            world.move(dice.choice(world.sent[-40:]), soon())
        if step % 30 == 29:  # one or all of them are away for a moment
            some = dice.sample(world.servers, dice.randrange(1, 1 + len(world.servers)))
            for server in some:
                server.kill() if dice.random() < 0.5 else server.stop()
            until = now() + timedelta(milliseconds=dice.randrange(2_500))
            wait_until(lambda until=until: now() > until)  # type: ignore[misc]  # mypy: a default
            for server in some:
                server.start()
    assert world.faults() == []
