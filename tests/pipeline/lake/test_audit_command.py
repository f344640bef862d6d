"""`tarry pipeline audit` of what is not there: a slip of the pen must not be told as clean."""

import pytest

from support import archiver
from support.stores import Kind, Stage

pytestmark = pytest.mark.long


@pytest.fixture
def kind() -> Kind:
    return "sqlite"


async def test_a_topic_that_is_not_there(stage: Stage) -> None:
    await stage.publish(stage.draft(await stage.topic("orders")))
    options = ("audit", "--dsn", stage.dsn, "--master", "local[1]", "--to", "2100-01-01T00:00:00Z")
    done = archiver.run(*options, "--topic", "oders")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "tarry pipeline: --topic oders: there is no such topic in the store\n"
    done = archiver.run(*options, "--topic", "orders")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("clean\n")
