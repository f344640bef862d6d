"""Logs: the form, the level, and that the libraries' own go the same way."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from support.terminal import Terminal
from tarry.service.upkeep.logs import set_up_logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.handlers, root.level = handlers, level


def test_a_pipe_gets_a_json_object_a_line() -> None:
    out = io.StringIO()
    set_up_logs("info", "auto", out)
    structlog.get_logger().info("listening", url="http://é")
    structlog.get_logger().debug("unheard")
    logging.getLogger("somebody.error").error("Error in %s", "ASGI")
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["event"], first["url"], first["level"]) == ("listening", "http://é", "info")
    assert first["timestamp"].endswith("Z")
    assert (second["event"], second["logger"], second["level"]) == ("Error in ASGI", "somebody.error", "error")


def test_an_exception_is_one_line_of_json() -> None:
    out = io.StringIO()
    set_up_logs("info", "json", out)
    try:
        raise KeyError("gone")
    except KeyError as error:
        structlog.get_logger().error("request_failed", exc_info=error)
    (line,) = out.getvalue().splitlines()
    assert "KeyError: 'gone'" in json.loads(line)["exception"]


@pytest.mark.parametrize(
    ("form", "stream", "no_color", "console", "colored"),
    [
        ("auto", Terminal, "", True, True),
        ("auto", Terminal, "1", True, False),
        ("console", io.StringIO, "", True, False),
        ("json", Terminal, "", False, False),
    ],
)
def test_a_terminal_gets_words_and_no_color_is_heeded(
    monkeypatch: pytest.MonkeyPatch, form: str, stream: type[io.StringIO], no_color: str, console: bool, colored: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    out = stream()
    set_up_logs("debug", form, out)
    structlog.get_logger().debug("turned", entries=3)
    assert ("{" not in out.getvalue()) is console
    assert ("\x1b[" in out.getvalue()) is colored
    assert "turned" in out.getvalue()
