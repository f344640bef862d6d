"""A topic that neither the store nor the lake knows: a slip of the pen must not be told as clean, or as nothing."""

from pathlib import Path

import pytest

from support import archiver
from support.server import client_of, start_server
from support.stores import Kind, Stage

pytestmark = pytest.mark.long


@pytest.fixture
def kind() -> Kind:
    return "sqlite"


async def test_a_topic_that_is_not_there(stage: Stage, tmp_path: Path) -> None:
    await stage.publish(stage.draft(await stage.topic("orders")))
    lake = str(tmp_path / "lake")
    assert archiver.run("archive", "--dsn", stage.dsn, "--lake", lake, "--master", "local[1]").returncode == 0
    audit = ("audit", "--to", "2100-01-01T00:00:00Z")
    report = ("report", "--output", str(tmp_path / "report"))
    replay = ("replay", "--to-topic", "elsewhere", "--dry-run")
    for job, places, where in (
        (audit, ("--dsn", stage.dsn), "the store"),
        (report, ("--lake", lake), "the lake"),
        (replay, ("--dsn", stage.dsn, "--lake", lake), "the store or the lake"),
    ):
        done = archiver.run(*job, *places, "--master", "local[1]", "--topic", "oders")
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == f"tarry pipeline: --topic oders: there is no such topic in {where}\n"
        done = archiver.run(*job, *places, "--master", "local[1]", "--topic", "orders")
        assert done.returncode == 0, done.stderr


def test_a_target_that_is_not_there_is_told_before_anything_is_read(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry:
        tarry.publish("orders", 1)
        replay = ("replay", "--topic", "orders", "--dsn", server.dsn, "--server", server.url, "--dry-run")
        for target, told in (
            (("--to-topic", "oders"), "tarry pipeline: there is no topic 'oders'"),
            (("--to-group", "billing"), "tarry pipeline: topic 'orders' has no group 'billing'"),
        ):
            done = archiver.run(*replay, *target)
            assert (done.returncode, done.stdout) == (3, "")
            assert done.stderr.startswith(told)
