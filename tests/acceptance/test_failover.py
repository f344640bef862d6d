"""A database that becomes read-only, and one whose writes another server takes: nothing that was acknowledged is lost,
nothing comes early, and all goes on by itself. Two real MariaDBs, the second a replica of the first."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trio

from support.commands import doctor
from support.replicas import HOW_TO, Pair, pair_of_servers, place_of
from support.server import client_of, start_server
from support.servers import Line, NoServerError, run_sql, skip_or_fail
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.client.errors import TarryError
from tarry.pipeline.errors import StoreAway
from tarry.pipeline.store_connection import StoreConnection, with_one_host
from tarry.service.demo.server_process import ServerProcess
from tarry.store import catalogue, nodes
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import ReadOnly, Unavailable
from tarry.store.migrations import newest
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.mysql.connection import connect
from tarry.store.mysql.dsn import Dsn
from tarry.store.records import Draft, Publication
from tarry.store.store import Store


@contextmanager
def own_pair() -> Iterator[Pair]:
    try:
        with pair_of_servers() as pair:
            yield pair
    except NoServerError as error:
        skip_or_fail(str(error))


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with own_pair() as pair:
        yield pair


def answers(server: ServerProcess) -> int:
    try:
        return ready(server).status_code
    except httpx.TransportError:
        return 0


@contextmanager
def closing_all() -> Iterator[list[Any]]:
    held = list[Any]()
    yield held
    for one in held:
        one.close()


def found_by_doctor(dsn: str) -> dict[str, tuple[str, str]]:
    """State and detail of each check."""
    found = {check: (state, detail) for check, state, detail in doctor(dsn)}
    assert ":app@" not in str(found)
    return found


def ready(server: ServerProcess) -> httpx.Response:
    return httpx.get(f"{server.url}/readyz?verbose")


def check_of(server: ServerProcess, name: str) -> dict[str, object]:
    (found,) = (check for check in ready(server).json()["checks"] if check["check"] == name)
    return dict(found)


def events(server: ServerProcess, *names: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    return [line for line in lines if line["event"] in names]


def test_read_only_for_a_while(pair: Pair, tmp_path: Path) -> None:
    with pair.database() as both:
        dsn = both.replace(f",{place_of(pair.follower)}", "")
        with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
            kept = tarry.publish("orders", "kept", delay="500ms")
            tarry.publish("orders", "now")
            claim = tarry.claim("orders", "billing", max=1)
            assert claim is not None
            run_sql(pair.leader.dsn, "SET GLOBAL read_only = 1")
            try:
                for _ in range(20):
                    answer = httpx.post(f"{server.url}/v1/topics/orders/messages", json={"body": "refused"})
                    assert answer.status_code == 503
                    assert answer.headers["retry-after"] == "1"
                    assert answer.json()["executed"] is False
                    assert "read-only" in answer.json()["detail"]
                wait_until(lambda: ready(server).status_code == 503)
                assert "read-only" in ready(server).json()["detail"]
                wait_until(lambda: time.time() > kept.deliver_at.timestamp() + 0.2)
            finally:
                run_sql(pair.leader.dsn, "SET GLOBAL read_only = 0")
            wait_until(lambda: ready(server).status_code == 200)
            assert tarry.ack(claim) == 1
            again = tarry.claim("orders", "billing", wait="10s", max=10)
            assert again is not None
            assert [message.id for message in again.messages] == [kept.id]
            assert tarry.publish("orders", "after").state == "published"
            assert not events(server, "store_host")
            assert events(server, "store_away")
            assert events(server, "store_back")
            assert not events(server, "request_failed", "crashed", "store_refused")
        bodies = pair.ask(dsn, "SELECT body FROM message")
        assert sorted(bodies) == [(b'"after"',), (b'"kept"',), (b'"now"',)]


def test_idle_and_read_only(pair: Pair, tmp_path: Path) -> None:
    """Nobody writes: it is found out all the same, also where the server's user could write (here it may not)."""
    with pair.database() as both, start_server(tmp_path, both.replace("app:app", "tarry:tarry")) as server:
        run_sql(pair.leader.dsn, "SET GLOBAL read_only = 1")
        try:
            wait_until(lambda: ready(server).status_code == 503)
            told = ready(server).json()["detail"]
            for host in (pair.leader, pair.follower):
                assert f"{urlsplit(host.dsn).port}/{urlsplit(both).path[1:]}: it is read-only" in told
            assert "tarry:tarry" not in told
            found = found_by_doctor(both)
            assert (found["store"][0], found["hosts"][0]) == ("wrong", "wrong")
            assert place_of(pair.follower) in found["store"][1]
        finally:
            run_sql(pair.leader.dsn, "SET GLOBAL read_only = 0")
        wait_until(lambda: ready(server).status_code == 200)
        found = found_by_doctor(both)
        assert found["store"][0] == "ok"
        assert found["hosts"] == (
            "ok",
            f"{place_of(pair.leader)}: takes writes; {place_of(pair.follower)}: it is read-only (@@read_only is on)",
        )
        assert "1 here and 0 elsewhere, of 25 each" in found["connections"][1]


async def test_a_look_at_the_nodes_offers_no_time_of_a_server_that_is_read_only(pair: Pair) -> None:
    """So the clock asks for it, and finds that out, where the server's user could write all the same."""
    with pair.database() as both:
        store = Store(MySQLBackend(both.replace(f",{place_of(pair.follower)}", "")))
        try:
            await store.backend.migrate()
            await store.note(nodes.enter, nodes.NodeRow("boot", "a", 0, 6, 1, 1, b"{}"))
            (seen,) = await store.read(nodes.look)
            assert seen.asked_at // 1000 == pytest.approx(await store.now(), abs=5_000)
            run_sql(pair.leader.dsn, "SET GLOBAL read_only = 1")
            try:
                (seen,) = await store.read(nodes.look)
                assert seen.asked_at == 0
            finally:
                run_sql(pair.leader.dsn, "SET GLOBAL read_only = 0")
            (seen,) = await store.read(nodes.look)
            assert seen.asked_at > 0
        finally:
            await store.backend.aclose()


def test_the_dsn_of_the_how_to() -> None:
    (dsn,) = re.findall(r"TARRY_DSN=(\S+)", HOW_TO)
    assert [one.place for one in Dsn.parse(dsn).each] == ["db1.example:3306", "db2.example:3306"]


class Load:
    """Two producers and a consumer, each with a client of its own, until the end is said."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.acknowledged: dict[str, float] = {}
        """By id: when it is due, Unix seconds."""
        self.received: dict[str, float] = {}
        """By id: when it came, on the same clock."""
        self.wrong: list[Exception] = []
        self._produced, self._over = threading.Event(), threading.Event()
        self._producers = [threading.Thread(target=self._produce, args=(delay,)) for delay in (None, "300ms", "2500ms")]
        self._consumer = threading.Thread(target=self._consume)

    def start(self) -> None:
        for thread in (*self._producers, self._consumer):
            thread.start()

    def end(self) -> None:
        """Waits until all is received."""
        self._produced.set()
        for thread in self._producers:
            thread.join(30)
        try:
            wait_until(lambda: self.acknowledged.keys() <= self.received.keys(), 20)
        finally:
            self._over.set()
            self._consumer.join(30)

    def _produce(self, delay: str | None) -> None:
        with Tarry(self.url, deadline=20) as tarry:
            while not self._produced.is_set():
                try:
                    receipt = tarry.publish("orders", 1, delay=delay)
                    self.acknowledged[receipt.id] = receipt.deliver_at.timestamp()
                except TarryError as error:
                    self.wrong.append(error)
                time.sleep(0.01)

    def _consume(self) -> None:
        with Tarry(self.url, deadline=20) as tarry:
            while not self._over.is_set():
                try:
                    claim = tarry.claim("orders", "billing", wait="200ms", max=100)
                    if claim is not None:
                        now = time.time()
                        for message in claim.messages:
                            self.received.setdefault(message.id, now)
                        tarry.ack(claim)
                except TarryError as error:
                    self.wrong.append(error)


def test_the_pipeline_goes_where_the_writes_go(pair: Pair) -> None:
    follower_first = f"mysql://app:app@{place_of(pair.follower)},{place_of(pair.leader)}/tarry"
    leader = f"mysql://app:app@{place_of(pair.leader)}/tarry"
    assert with_one_host(follower_first) == leader
    with StoreConnection(follower_first) as connection:
        assert connection.rows("SELECT @@port") == [(urlsplit(leader).port,)]
    alone = f"mysql://app:app@{place_of(pair.follower)}/tarry"
    with StoreConnection(alone) as replica:  # who names a replica reads it
        assert replica.rows("SELECT @@port") == [(urlsplit(alone).port,)]
    with pytest.raises(StoreAway) as caught:
        StoreConnection(f"mysql://app:wrong@{place_of(pair.leader)},127.0.0.1:1/tarry")
    assert place_of(pair.leader) in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


def test_another_server_takes_the_writes(pair: Pair, tmp_path: Path) -> None:
    with pair.database() as dsn, start_server(tmp_path, dsn) as server:
        load = Load(server.url)
        load.start()
        wait_until(lambda: len(load.received) > 20)
        old, new = place_of(pair.leader), place_of(pair.follower)
        with client_of(server) as tarry:
            far = tarry.publish("later", "kept", delay="1h")
        pair.switch()
        switched = set(load.acknowledged)
        try:
            wait_until(lambda: ready(server).status_code == 200)
            wait_until(lambda: len(load.acknowledged.keys() - switched) > 20)
            load.end()
            early = {id_ for id_, due in load.acknowledged.items() if load.received[id_] < due}
            assert not early
            assert [str(error) for error in load.wrong] == []
            (told,) = events(server, "store_host")
            assert (told["before"], told["now"]) == (old, new)
            wait_until(lambda: bool(events(server, "wheel_reloaded")))
            assert not events(server, "request_failed", "crashed", "store_refused")
            with client_of(server) as tarry:
                assert tarry.cancel(far.id) == "cancelled"
            assert pair.ask(dsn, "SELECT COUNT(*) FROM message") == [(len(load.acknowledged),)]
        finally:
            pair.follow()


def test_few_sessions_are_enough_and_none_is_waited_for(pair: Pair, tmp_path: Path) -> None:
    with pair.database() as dsn, closing_all() as held:
        pair.limit_sessions(3)
        try:
            with start_server(tmp_path, dsn) as server:
                load = Load(server.url)
                load.start()
                wait_until(lambda: len(load.received) > 50)
                load.end()
                assert [str(error) for error in load.wrong] == []
                assert not events(server, "request_failed", "crashed")
            held += [pair.log_in(dsn) for _ in range(3)]
            late = ServerProcess(tmp_path, dsn)
            starting = threading.Thread(target=late.start)
            starting.start()
            try:
                wait_until(lambda: answers(late) == 503 and bool(events(late, "store_away")))
                asked = httpx.post(f"{late.url}/v1/topics/orders/messages", json={"body": 1})
                assert (asked.status_code, asked.json()["executed"]) == (503, False)
                held.pop().close()
                held.pop().close()
                starting.join(30)
                assert {ready(late).status_code for _ in range(50)} == {200}
                # Its three kinds of sessions share the two.
                assert len(events(late, "store_away")) == 1
            finally:
                starting.join(30)
                assert late.stop() == 0
        finally:
            pair.limit_sessions(0)


def test_a_server_that_goes_without_a_word(tmp_path: Path) -> None:
    """Its machine is gone: nobody answers, and nobody hangs up. What is under way is not waited for. What was sent to
    it is done when it comes back, so that nobody can follow from there: the pair is of this test alone."""
    with own_pair() as pair, pair.database() as dsn, start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        tarry.publish("orders", "kept", delay="1s")
        tarry.publish("orders", "now")
        claim = tarry.claim("orders", "billing", max=1)
        assert claim is not None
        pair.catch_up()
        gone = pair.leader.process
        gone.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            pair.promote()
            publishing = threading.Thread(target=tarry.publish, args=("orders", "after"))
            publishing.start()
            wait_until(lambda: bool(events(server, "store_host")), 20)
            wait_until(lambda: ready(server).status_code == 200, 10)
            took = time.monotonic() - began
            publishing.join(30)
            assert tarry.ack(claim) == 1
            received = set[object]()
            while len(received) < 2:
                again = tarry.claim("orders", "billing", wait="10s", max=10)
                assert again is not None
                received |= {message.body for message in again.messages}
                tarry.ack(again)
            assert received == {"kept", "after"}
            assert took < 15  # of what was under way nothing waits for half a minute, which is TCP's
        finally:
            gone.kill()


async def add_group(dsn: str, topic: str, group: str) -> int:
    """Its number. As another server of Tarry's does, which has heard of the change before."""
    store = Store(MySQLBackend(dsn))
    try:
        (found,) = await store.read(catalogue.find_topics, [topic])
        return (await store.add_group(found, group, 1)).id
    finally:
        await store.backend.aclose()


@pytest.mark.long
def test_groups_that_were_lost_come_again_and_none_has_anothers_messages(tmp_path: Path) -> None:
    """The new server lacks both, and gives the number of one to the other. Nobody can follow after that: the pair is of
    this test alone."""
    with own_pair() as pair, pair.database() as dsn, start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        tarry.publish("orders", "kept")
        pair.catch_up()
        run_sql(pair.follower.dsn, "STOP SLAVE")
        old = pair.leader.dsn
        for group in ("billing", "mails"):
            claim = tarry.claim("orders", group, max=1)
            assert claim is not None
            tarry.ack(claim)
        lost = pair.ask(dsn, "SELECT MIN(id) FROM consumer_group")
        pair.promote()
        made = trio.run(add_group, f"mysql://app:app@{place_of(pair.leader)}{urlsplit(dsn).path}", "orders", "mails")
        assert lost == [(made,)]
        run_sql(old, "SET GLOBAL read_only = ON")
        wait_until(lambda: bool(events(server, "wheel_reloaded")))
        for group in ("mails", "billing"):
            claim = tarry.claim("orders", group, wait="5s", max=10)
            assert claim is not None, group
            assert [message.body for message in claim.messages] == ["kept"]
            assert tarry.ack(claim) == 1
        assert pair.ask(dsn, "SELECT COUNT(*) FROM consumer_group") == [(2,)]


async def test_a_commit_that_is_refused_is_known_not_to_be_kept(pair: Pair) -> None:
    with pair.database() as dsn:
        pair.ask(dsn, "CREATE TABLE t (a INT PRIMARY KEY)")
        connection = await connect(Dsn.parse(dsn), write=True)
        await connection.begin()
        assert await connection.execute(b"INSERT INTO t VALUES (1)") == 1
        run_sql(pair.leader.dsn, "SET GLOBAL read_only = 1")
        try:
            with pytest.raises(ReadOnly) as caught:
                await connection.commit()
        finally:
            run_sql(pair.leader.dsn, "SET GLOBAL read_only = 0")
        assert caught.value.code in (1290, 1792, 1836)
        assert connection.closed
        assert pair.ask(dsn, "SELECT COUNT(*) FROM t") == [(0,)]


async def test_a_session_is_for_writes_whatever_the_servers_default_is(pair: Pair) -> None:
    with pair.database() as dsn:
        pair.ask(dsn, "CREATE TABLE t (a INT PRIMARY KEY)")
        run_sql(pair.leader.dsn, "SET GLOBAL tx_read_only = 1")
        try:
            with closing(await connect(Dsn.parse(dsn), write=True)) as connection:
                assert await connection.execute(b"INSERT INTO t VALUES (1)") == 1
        finally:
            run_sql(pair.leader.dsn, "SET GLOBAL tx_read_only = 0")


@pytest.mark.parametrize("moment", ["cut_before", "cut_after"])
async def test_a_commit_in_doubt_is_looked_for_at_the_server_that_takes_over(
    pair: Pair, moment: str, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pair.database() as dsn:
        line: Line = await nursery.start(Line(dsn.replace(f",{place_of(pair.follower)}", "")).run)
        backend = MySQLBackend(line.dsn.replace("/tarry_", f",{place_of(pair.follower)}/tarry_"))
        store, look = Store(backend), backend._landed

        async def look_later(*doubted: Any) -> bool:
            await trio.to_thread.run_sync(pair.switch)
            return await look(*doubted)

        monkeypatch.setattr(backend, "_landed", look_later)
        await backend.migrate()
        topic = await store.write(catalogue.add_topic, TopicDraft("orders"), 1)
        setattr(line, moment, b"COMMIT")
        publication = Publication((Draft(topic=topic, queue=topic.queues[0], body=b"1"),))
        try:
            if moment == "cut_after":
                assert await store.publish([publication], 1)
            else:
                with pytest.raises(Unavailable, match="another server"):
                    await store.publish([publication], 1)
            assert pair.ask(dsn, "SELECT COUNT(*) FROM message") == [(int(moment == "cut_after"),)]
        finally:
            await backend.aclose()
            pair.follow()


@pytest.mark.long
def test_a_server_that_has_another_database_is_left_alone(tmp_path: Path, next_program: Path) -> None:
    """It takes writes, and has no schema, then another one, then an older one; and of two that take writes whoever
    looks is told. No replica: the pair is of this test alone."""
    with own_pair() as pair, pair.database() as dsn:
        name = urlsplit(dsn).path[1:]
        other = urlsplit(pair.follower.dsn)._replace(path=f"/{name}").geturl()
        run_sql(pair.follower.dsn, "STOP SLAVE", "SET GLOBAL read_only = 0")
        path = {"PYTHONPATH": os.fspath(next_program)}
        with start_server(tmp_path, dsn, env=path) as server, client_of(server) as tarry:
            begun = pair.ask(dsn, "SELECT applied_at FROM migration")[0][0]
            for says, spoil in (
                ("no schema of Tarry's", ""),
                ("another database of Tarry's", ""),
                (f"lacks {newest() + 1:04}", f"UPDATE migration SET applied_at = {begun}"),
            ):
                if says.startswith("another"):
                    trio.run(migrate, other)
                if spoil:
                    run_sql(other, spoil)
                run_sql(pair.leader.dsn, "SET GLOBAL read_only = 1")
                wait_until(lambda: ready(server).status_code == 503)
                wait_until(lambda says=says: says in ready(server).json()["detail"])  # type: ignore[misc]
                answer = httpx.post(f"{server.url}/v1/topics/orders/messages", json={"body": "refused"})
                assert (answer.status_code, answer.json()["executed"]) == (503, False)
                run_sql(pair.leader.dsn, "SET GLOBAL read_only = 0")
                wait_until(lambda: ready(server).status_code == 200)
                assert tarry.publish("orders", says).state == "published"
            refused = events(server, "store_host_refused")
            assert [line["host"] for line in refused] == [place_of(pair.follower)] * 3
            assert not events(server, "store_host", "round_failed", "store_refused", "request_failed", "crashed")
            assert len(server.log.read_text().splitlines()) < 60
            wait_until(lambda: place_of(pair.follower) in str(check_of(server, "writers")["detail"]))
            assert ready(server).status_code == 200
            assert events(server, "store_two_writers")[-1]["hosts"] == [place_of(pair.follower)]
            (tmp_path / "another").mkdir()
            with start_server(tmp_path / "another", dsn) as another:  # the one with the duties looks, and tells it
                wait_until(lambda: place_of(pair.follower) in str(check_of(another, "writers")["detail"]))
                assert events(another, "store_two_writers") == []
        assert pair.ask(dsn, "SELECT COUNT(*) FROM message") == [(3,)]
        assert run_sql(other, "SELECT COUNT(*) FROM topic") == [(0,)]


async def migrate(dsn: str) -> None:
    backend = MySQLBackend(dsn)
    await backend.migrate()
    await backend.aclose()
