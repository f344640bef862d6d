"""`tarry pipeline import` as the how-to has it: what it prints, and its exit codes."""

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.server import client_of, start_server
from tarry.pipeline.cli.app import run

pytestmark = pytest.mark.long


HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "import.md"


def test_the_how_to(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", HOW_TO.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (text,) = [text for language, text in blocks if language == "csv"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TARRY_DSN", raising=False)
    file = tmp_path / "orders.csv"
    file.write_text(text)
    command, *printed = blocks[1][1].splitlines()[1:]
    with start_server(tmp_path) as server, client_of(server) as tarry:
        arguments = command.replace("http://localhost:8277", server.url).split()[3:]
        arguments[1] = str(file)
        assert run(arguments) == 3, "the topic is not there"
        assert "no topic 'reminders'" in capsys.readouterr().err
        tarry.put_topic("reminders", queues=4)
        assert run(arguments) == 0
        assert capsys.readouterr().out.splitlines()[: len(printed)] == printed
        arguments = [argument for argument in arguments if argument != "--dry-run"]
        assert run([*arguments, "--errors", str(tmp_path / "bad"), "--json", "--strict"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert (told["read"], told["imported"], told["skipped"], told["bad"]) == (3, 2, 0, 1)
        assert Path(told["errors"]).parent == tmp_path / "bad"
        assert run([*arguments, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["imported"], told["skipped"]) == (0, 2)
        assert {found["key"] for found in tarry.find("reminders", state="scheduled")} == {"ada", "ben"}
        file.write_text("due\nsoon\n")
        assert run(["import", str(file), "--topic", "reminders", "--deliver-at", "due", "--server", server.url]) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["rows.csv"], 2, "only its server may write"),
        (["rows.csv", "--dsn", "sqlite:///x.db"], 2, "--server"),
        (["missing.csv", "--server", "http://127.0.0.1:9"], 3, "no such file"),
        (["rows.csv", "--server", "http://127.0.0.1:9", "--key", "m"], 2, "there are n"),
        (["rows.csv", "--server", "http://127.0.0.1:9", "--rate", "0"], 2, "--rate"),
        (["missing.csv", "--server", "http://127.0.0.1:9", "--window", "soon"], 2, '--window: "soon"'),
        (["missing.csv", "--server", "http://127.0.0.1:9", "--deliver-at", "a", "--delay", "b"], 2, "--delay"),
        (["rows.csv", "--server", "http://127.0.0.1:9", "--name", "ü"], 2, "--name"),
        (["rows.csv", "--server", "http://127.0.0.1:9", "--zone", "Mars/Foo"], 2, '--zone: "Mars/Foo"'),
        (["rows.csv", "--server", "http://127.0.0.1:9", "--format", "parquet"], 1, "rows.csv is no Parquet file"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_a_code(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    (tmp_path / "rows.csv").write_text("n\n1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TARRY_DSN", raising=False)
    # No server is there: it would be asked first, for the topic.
    monkeypatch.setattr("tarry.pipeline.sending.importing.check_topic", lambda *_, **__: None)
    arguments = [str(tmp_path / arguments[0]), *arguments[1:]]
    got = run(["import", *arguments, "--topic", "t"])
    error = capsys.readouterr().err
    assert got == code, error
    assert says in error
