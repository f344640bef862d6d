"""What is particular to the embedded store: its file, its lock, its writer."""

import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from support.at_once import at_once
from support.hearing import HearingStore
from support.stores import HOUR, START, SQLiteTables, Stage
from tarry.store import catalogue
from tarry.store.errors import Contention, Refused, StoreInUse, Unavailable
from tarry.store.ports import Transaction, Work
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.sqlite.connection import connect
from tarry.store.store import Store
from tarry.store.stream import stretches


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    path = tmp_path / "tarry.db"
    backend = SQLiteBackend(path)
    await backend.migrate()
    tables = SQLiteTables(path)
    yield Stage("sqlite", f"sqlite:///{path}", HearingStore(backend), tables)
    await backend.aclose()
    tables.close()


class TestOneServer:
    async def test_a_second_is_refused(self, stage: Stage, tmp_path: Path) -> None:
        with pytest.raises(StoreInUse, match="another server uses"):
            SQLiteBackend(tmp_path / "tarry.db")
        topic = await stage.topic()
        assert len(await stage.publish(stage.draft(topic))) == 1

    async def test_a_second_process_is_refused(self, stage: Stage, tmp_path: Path) -> None:
        assert await _second(tmp_path / "tarry.db") == "StoreInUse"

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["link.db", "folder/tarry.db", "circle/../tarry.db", "far.db"])
    async def test_under_another_name(self, name: str, stage: Stage, tmp_path: Path) -> None:
        """A link to the file, to its folder, by a detour, to a link."""
        (tmp_path / "link.db").symlink_to("tarry.db")
        (tmp_path / "far.db").symlink_to("link.db")
        (tmp_path / "folder").symlink_to(tmp_path)
        (tmp_path / "circle").mkdir()
        assert await _second(tmp_path / name) == "StoreInUse"
        with pytest.raises(StoreInUse):
            SQLiteBackend(tmp_path / name)

    @pytest.mark.slow
    async def test_by_a_path_from_another_folder(
        self, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert await _second(Path("tarry.db"), cwd=tmp_path) == "StoreInUse"
        monkeypatch.chdir(tmp_path)
        with pytest.raises(StoreInUse):
            SQLiteBackend(Path("tarry.db"))

    @pytest.mark.slow
    async def test_mounted_under_another_name(self, stage: Stage, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        mounted = tmp_path / "other" / "mounted.db"
        mounted.touch()
        mount: list[str | Path] = [
            "sh",
            "-c",
            'mount --bind "$0" "$1" && shift && exec "$@"',
            tmp_path / "tarry.db",
            mounted,
        ]
        alone = ["unshare", "--mount", "--map-root-user"]
        if (await trio.run_process([*alone, *mount, "true"], check=False, capture_stderr=True)).returncode != 0:
            pytest.skip("this machine lets nobody mount")
        assert await _second(mounted, before=[*alone, *mount]) == "StoreInUse"

    @pytest.mark.slow
    async def test_a_file_with_two_names_is_refused(self, stage: Stage, tmp_path: Path) -> None:
        """Not only beside a running server: the write-ahead log lies under the other name."""
        other = tmp_path / "other.db"
        other.hardlink_to(tmp_path / "tarry.db")
        assert await _second(other) == "Refused"
        with pytest.raises(Refused, match="2 names"):
            SQLiteBackend(other)
        await stage.store.backend.aclose()
        for path in (other, tmp_path / "tarry.db"):
            with pytest.raises(Refused, match="2 names"):
                SQLiteBackend(path)
        other.unlink()
        await SQLiteBackend(tmp_path / "tarry.db").aclose()

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["tarry.db", "link.db", "other.db"])
    async def test_a_refusal_takes_no_lock_from_the_first(self, name: str, stage: Stage, tmp_path: Path) -> None:
        """A process loses all its locks on a file, SQLite's too, when it closes any descriptor of it."""
        (tmp_path / "link.db").symlink_to("tarry.db")
        stage.tables.rows("BEGIN IMMEDIATE")
        if name == "other.db":
            (tmp_path / name).hardlink_to(tmp_path / "tarry.db")
        before = _locks(tmp_path / "tarry.db")
        with pytest.raises((StoreInUse, Refused)):
            SQLiteBackend(tmp_path / name)
        await _second(tmp_path / name)
        assert "POSIX" in before
        assert _locks(tmp_path / "tarry.db") == before
        stage.tables.rows("ROLLBACK")

    @pytest.mark.slow
    async def test_a_file_that_was_put_in_its_place(self, stage: Stage, tmp_path: Path) -> None:
        """The write-ahead log goes by the name: a new file must not take the first server's."""
        (tmp_path / "tarry.db").rename(tmp_path / "yesterday.db")
        assert await _second(tmp_path / "tarry.db") == "StoreInUse"
        assert not (tmp_path / "tarry.db").exists()

    async def test_readers_need_no_leave(self, stage: Stage, tmp_path: Path) -> None:
        """What looks beside a running server: the doctor, the pipeline, the sqlite3 shell."""
        await stage.topic()
        program = (
            "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT name FROM topic').fetchone()[0])"
        )
        done = await trio.run_process([sys.executable, "-c", program, str(tmp_path / "tarry.db")], capture_stdout=True)
        assert done.stdout.strip()

    async def test_after_the_first_is_closed(self, tmp_path: Path) -> None:
        for _ in range(2):
            backend = SQLiteBackend(tmp_path / "tarry.db")
            await backend.migrate()
            await backend.aclose()
            await backend.aclose()

    @pytest.mark.slow
    async def test_after_the_first_was_killed(self, tmp_path: Path) -> None:
        """The lock goes with the process, and what was answered is there."""
        program = (
            "import os, sys, trio; from pathlib import Path\n"
            "from tarry.store.sqlite.backend import SQLiteBackend\n"
            "from tarry.store.store import Store; from tarry.store.catalogue import TopicDraft, add_topic\n"
            "async def main():\n"
            "    store = Store(SQLiteBackend(Path(sys.argv[1])))\n"
            "    await store.backend.migrate()\n"
            "    await store.write(add_topic, TopicDraft('orders'), 1)\n"
            "    os.kill(os.getpid(), 9)\n"
            "trio.run(main)"
        )
        tree = Path(__file__).parents[3] / ".tree"
        done = await trio.run_process(
            [sys.executable, "-c", program, str(tmp_path / "tarry.db")],
            check=False,
            env={**os.environ, "PYTHONPATH": str(tree)},
        )
        assert done.returncode == -9
        backend = SQLiteBackend(tmp_path / "tarry.db")
        assert [topic.name for topic in await Store(backend).read(catalogue.topics)] == ["orders"]
        await backend.aclose()


class TestFile:
    async def test_nobody_else_may_read_it(self, stage: Stage, tmp_path: Path) -> None:
        await stage.publish(stage.draft(await stage.topic()))
        assert _modes(tmp_path) == dict.fromkeys(("tarry.db", "tarry.db-shm", "tarry.db-wal", "tarry.db.lock"), 0o600)

    async def test_the_mode_of_one_that_is_there_is_its_owner_s(self, tmp_path: Path) -> None:
        """A group that makes backups, for instance."""
        path = tmp_path / "tarry.db"
        path.touch()
        path.chmod(0o640)
        backend = SQLiteBackend(path)
        await backend.migrate()
        await Store(backend).read(catalogue.topics)
        of_it = dict.fromkeys(("tarry.db", "tarry.db-shm", "tarry.db-wal"), 0o640)
        assert _modes(tmp_path) == {**of_it, "tarry.db.lock": 0o600}
        await backend.aclose()

    async def test_another_folder_changes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Readers are opened when they are needed."""
        monkeypatch.chdir(tmp_path)
        backend = SQLiteBackend(Path("tarry.db"))
        await backend.migrate()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        assert await Store(backend).read(catalogue.topics) == []
        assert os.listdir() == []
        await backend.aclose()

    @pytest.mark.parametrize("name", ["folder", "pipe", "circle"])
    async def test_what_is_no_file(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "circle").symlink_to("circle")
        with pytest.raises((Refused, Unavailable), match=f"{name} is not a file|cannot open"):
            SQLiteBackend(tmp_path / name)


class TestTrouble:
    async def test_a_directory_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(Unavailable, match="cannot open"):
            SQLiteBackend(tmp_path / "none" / "tarry.db")

    async def test_a_directory_that_cannot_be_written(self) -> None:
        # Not even the superuser writes to /proc.
        with pytest.raises(Unavailable, match="cannot open"):
            SQLiteBackend(Path("/proc/tarry.db"))

    async def test_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        path = tmp_path / "tarry.db"
        path.write_bytes(b"this is no database at all " * 100)
        with pytest.raises(Unavailable):
            SQLiteBackend(path)
        path.unlink()
        backend = SQLiteBackend(path)  # the lock was let go
        await backend.aclose()

    async def test_read_only(self, stage: Stage) -> None:
        topic = await stage.topic()
        await _writer_says(stage, "PRAGMA query_only = ON")
        with pytest.raises(Unavailable):
            await stage.publish(stage.draft(topic))
        await _writer_says(stage, "PRAGMA query_only = OFF")
        assert (await stage.publish(stage.draft(topic)))[0].offset == 0

    async def test_a_full_disk(self, stage: Stage) -> None:
        """What was answered is there, what was refused is not, and with room it goes on."""
        topic = await stage.topic()
        (pages,) = stage.column("PRAGMA page_count")
        await _writer_says(stage, f"PRAGMA max_page_count = {pages + 40}")
        accepted: list[int] = []
        reasons: set[str] = set()
        for i in range(40):
            try:
                receipts = await stage.publish(stage.draft(topic, b"x" * 8000), stage.draft(topic, b"y", HOUR))
                accepted += [receipt.id for receipt in receipts]
            except Unavailable as error:
                reasons.add(str(error))
            if i == 30:
                await _writer_says(stage, "PRAGMA max_page_count = 100000")
        assert reasons == {"SQLite: database or disk is full"}
        assert 20 < len(accepted) < 80
        kept = stage.column("SELECT id FROM message") + stage.column("SELECT id FROM delay")
        assert sorted(kept) == sorted(accepted)
        assert stage.column("SELECT `offset` FROM message ORDER BY `offset`") == list(range(len(accepted) // 2))
        await stage.counts(topic, accepted=len(accepted), pending=len(accepted) // 2)

    async def test_a_full_disk_for_many_at_once(self, stage: Stage) -> None:
        """They share a transaction: each is told the truth about its own."""
        topic = await stage.topic()
        (pages,) = stage.column("PRAGMA page_count")
        await _writer_says(stage, f"PRAGMA max_page_count = {pages + 130}")
        accepted: list[int] = []

        async def publish() -> None:
            try:
                receipts = await stage.publish(stage.draft(topic, b"x" * 8000))
                accepted.extend(receipt.id for receipt in receipts)
            except Unavailable:
                pass

        for _ in range(4):
            await at_once(*[publish] * 20)
        assert 0 < len(accepted) < 80
        assert sorted(stage.column("SELECT id FROM message")) == sorted(accepted)

    async def test_somebody_else_holds_the_write_lock(self, stage: Stage) -> None:
        """A person with the sqlite3 shell, for instance."""
        topic = await stage.topic()
        await _writer_says(stage, "PRAGMA busy_timeout = 50")
        stage.tables.rows("BEGIN IMMEDIATE")
        with pytest.raises(Contention):
            await stage.publish(stage.draft(topic))
        stage.tables.rows("ROLLBACK")
        assert (await stage.publish(stage.draft(topic)))[0].offset == 0

    async def test_closed(self, tmp_path: Path) -> None:
        backend = SQLiteBackend(tmp_path / "tarry.db")
        await backend.migrate()
        await backend.aclose()
        with pytest.raises(Unavailable, match="closed"):
            await Store(backend).cancel([1], START)


class TestWriter:
    async def test_one_commit_for_many(self, stage: Stage) -> None:
        topic = await stage.topic()
        before = stage.store.backend.statistics()

        async def publish() -> None:
            await stage.publish(stage.draft(topic))

        await at_once(*[publish] * 50)
        after = stage.store.backend.statistics()
        assert after["works"] - before["works"] == 50
        assert after["transactions"] - before["transactions"] < 50

    async def test_heavy_work_has_its_turn_after_the_others(self, stage: Stage) -> None:
        backend, begun, gate, order = stage.store.backend, threading.Event(), threading.Event(), list[str]()

        def work(name: str) -> Work[None]:
            async def noted(_: Transaction) -> None:
                order.append(name)
                if name == "first":
                    begun.set()
                    assert gate.wait(10)

            return noted

        async def write(name: str) -> None:
            await backend.write(work(name), heavy=name.startswith("heavy"))

        before = backend.statistics()["transactions"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, "first")
            await trio.to_thread.run_sync(begun.wait)
            for name in ("heavy 1", "heavy 2", "light 1", "light 2"):
                nursery.start_soon(write, name)
                await trio.testing.wait_all_tasks_blocked()
            await trio.to_thread.run_sync(gate.set)
        assert sorted(order[1:3]) == ["light 1", "light 2"], "together, and before what is heavy"
        assert order[3:] == ["heavy 1", "heavy 2"]
        assert backend.statistics()["transactions"] - before == 4, "each heavy one by itself"

    async def test_heavy_work_hears_that_light_work_waits(self, stage: Stage) -> None:
        backend, begun, gate, heard = stage.store.backend, threading.Event(), threading.Event(), list[bool]()

        async def heavy(_: Transaction) -> None:
            heard.append(backend.waited_for())
            begun.set()
            assert gate.wait(10)
            heard.append(backend.waited_for())

        async def light(_: Transaction) -> None:
            heard.append(backend.waited_for())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: backend.write(heavy, heavy=True))
            await trio.to_thread.run_sync(begun.wait)
            nursery.start_soon(lambda: backend.write(heavy, heavy=True))
            await trio.testing.wait_all_tasks_blocked()
            assert not backend.waited_for(), "heavy work may wait"
            nursery.start_soon(backend.write, light)
            await trio.testing.wait_all_tasks_blocked()
            await trio.to_thread.run_sync(gate.set)
        assert heard == [False, True, False, False, False]

    async def test_what_waits_is_written_before_it_closes(self, tmp_path: Path) -> None:
        backend, gate, done = SQLiteBackend(tmp_path / "closing.db"), threading.Event(), list[bool]()

        async def write(heavy: bool) -> None:
            async def noted(_: Transaction) -> None:
                assert gate.wait(10)
                done.append(heavy)

            await backend.write(noted, heavy=heavy)

        async with trio.open_nursery() as nursery:
            for heavy in (False, True, True, False):
                nursery.start_soon(write, heavy)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(backend.aclose)
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
        assert sorted(done) == [False, False, True, True]

    async def test_one_that_fails_is_undone_alone(self, stage: Stage) -> None:
        topic = await stage.topic()
        outcomes: list[str] = []

        async def publish(number: int) -> None:
            async def work(tx: Transaction) -> None:
                await tx.execute_many("label.add", [(topic.id, b"%d" % number, number)])
                if number % 3 == 0:
                    raise Refused("no")

            try:
                await stage.store.backend.write(work)
                outcomes.append("done")
            except Refused:
                outcomes.append("refused")

        await at_once(*(partial(publish, number) for number in range(30)))
        assert outcomes.count("refused") == 10
        assert sorted(stage.column("SELECT id FROM label")) == [n for n in range(30) if n % 3]

    async def test_one_that_fails_alone_is_undone_and_hears_why(self, stage: Stage) -> None:
        topic = await stage.topic()

        async def work(tx: Transaction) -> None:
            await tx.execute("queue.draw", 1, 1, topic.queues[0].id)
            raise RuntimeError("after all")

        with pytest.raises(RuntimeError, match="after all"):
            await stage.store.write(work)
        assert (await stage.publish(stage.draft(topic)))[0].offset == 0

    @pytest.mark.parametrize("many", [1, 3, 31, 32, 33, 100, 127, 128, 129, 300])
    async def test_each_row_of_many_is_there_once(self, stage: Stage, many: int) -> None:
        """However they are put into statements, and beside others of the same batch."""
        topic = await stage.topic(queues=2)
        drafts = [stage.draft(topic, b"%d" % number, queue=number % 3 // 2) for number in range(many)]
        receipts = await stage.publish(*drafts)
        kept = stage.tables.rows("SELECT id, queue_id, `offset`, body FROM message")
        assert sorted(kept) == sorted(
            (receipt.id, draft.queue.id, receipt.offset, draft.body)
            for receipt, draft in zip(receipts, drafts, strict=True)
        )

    async def test_a_cancelled_caller_s_work_is_done_all_the_same(self, stage: Stage) -> None:
        topic = await stage.topic()
        with trio.CancelScope() as scope:
            scope.cancel()
            await stage.publish(stage.draft(topic))
        await stage.publish(stage.draft(topic))
        assert stage.count("message") in (1, 2)
        assert stage.column("SELECT `offset` FROM message ORDER BY `offset`") == list(range(stage.count("message")))

    async def test_work_that_awaits_something_else_is_refused(self, stage: Stage) -> None:
        async def work(tx: Transaction) -> None:
            await trio.lowlevel.checkpoint()

        with pytest.raises(RuntimeError, match="awaited something other"):
            await stage.store.backend.write(work)

    async def test_readers_are_not_kept_waiting(self, stage: Stage) -> None:
        topic = await stage.topic()
        await stage.publish(stage.draft(topic))
        stage.tables.rows("BEGIN IMMEDIATE")
        # SQLite refuses who would wait for two seconds.
        assert len(await stage.store.read(stretches.pull, topic.queues[0], 0, 10)) == 1
        stage.tables.rows("ROLLBACK")

    async def test_many_readers(self, stage: Stage) -> None:
        topic = await stage.topic()
        await stage.publish(*(stage.draft(topic) for _ in range(10)))

        async def read() -> None:
            for _ in range(20):
                assert len(await stage.store.read(stretches.pull, topic.queues[0], 0, 10)) == 10

        await at_once(*[read] * 10)


def test_every_commit_reaches_the_disk(tmp_path: Path) -> None:
    connection = connect(tmp_path / "tarry.db")
    assert connection.execute("PRAGMA journal_mode").fetchall() == [(b"wal",)]
    assert connection.execute("PRAGMA synchronous").fetchall() == [(2,)]
    connection.close()


async def _writer_says(stage: Stage, pragma: str) -> None:
    """Has the writer's own connection say it, between two transactions."""
    backend = stage.store.backend
    assert isinstance(backend, SQLiteBackend)
    connection: sqlite3.Connection = backend._writer._connection
    connection.execute(pragma).fetchall()


async def _second(path: Path, cwd: Path | None = None, before: Sequence[str | Path] = ()) -> str:
    """What a server in another process is told."""
    program = (
        "import sys; from pathlib import Path; from tarry.store.sqlite.backend import SQLiteBackend\n"
        "try: SQLiteBackend(Path(sys.argv[1])); print('nothing')\n"
        "except Exception as error: print(type(error).__name__)"
    )
    tree = Path(__file__).parents[3] / ".tree"
    done = await trio.run_process(
        [*before, sys.executable, "-c", program, str(path)],
        capture_stdout=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(tree)},
    )
    return done.stdout.decode().strip()


def _modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def _locks(path: Path) -> str:
    """All locks of the file that this process holds, as the kernel lists them."""
    ours = f" {os.getpid()} ", f":{path.stat().st_ino} "
    lines = Path("/proc/locks").read_text().splitlines()
    return "\n".join(sorted(line.partition(":")[2] for line in lines if all(word in line for word in ours)))
