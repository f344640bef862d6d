"""The page: what stands out, every figure, and what is not known. Rows in, HTML out. Knows nothing of Spark."""

import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from attrs import frozen
from jinja2 import Environment, StrictUndefined, select_autoescape

from ... import __version__
from . import words
from .catalogue import FIGURES
from .charts import Rows
from .drawings import NAMES, Drawn, drawn
from .findings import findings
from .window import LOOK_AHEAD, LOOK_BACK, Window


@frozen
class Known:
    """What is known beside the rows. If only store or lake was read, the report lacks what only the other knows."""

    store: bool
    lake: str | None
    """Where the lake is; None: only the store was read."""
    now: int
    """The time now, in milliseconds: by the clock of the store; without a store by that of this machine."""
    unread: frozenset[str] = frozenset()
    """Topics that have no group at all."""


def page(title: str, window: Window, figures: Mapping[str, Rows], known: Known, topics: Sequence[str] = ()) -> str:
    """The page as HTML. `figures` has the rows of every figure, by name."""
    template = Environment(autoescape=select_autoescape(default=True), undefined=StrictUndefined).from_string(
        files(__package__ or "").joinpath("page.html.j2").read_text("utf-8")
    )
    sections: list[dict[str, object]] = []
    for figure in FIGURES:
        if figure.name in NAMES:
            shown = drawn(figure.name, figures, window)
            sections.append({"figure": figure, "drawn": shown, "commands": _commands(shown, known)})
    return template.render(
        title=title,
        stretch=words.stretch(window.since, window.until),
        topics=topics,
        tiles=_tiles(figures),
        findings=findings(figures, window, known.unread),
        sections=sections,
        unknown=unknown(window, figures["overview"][0], known),
        version=__version__,
    )


def _commands(shown: Drawn | None, known: Known) -> Sequence[str]:
    """The commands that trace the messages of a section; a DSN, which has a password, is the reader's to add."""
    if shown is None or not shown.ids:
        return ()
    lake = () if known.lake is None else ("--lake", known.lake)
    ids = [word for id_ in shown.ids for word in ("--id", str(id_))]
    return (
        shlex.join(["tarry", "pipeline", "trace", *lake, *ids]),
        *((shlex.join(["tarry", "show", str(shown.ids[0])]),) if known.store else ()),
    )


def unknown(window: Window, overview: Mapping[str, Any], known: Known) -> list[str]:
    """What the report cannot know, in sentences."""
    sentences: list[str] = []
    if not known.store:
        sentences.append(
            "Only the lake was read. Messages that wait for their time, open claims, messages on the ladder and "
            "groups that never took a message are not in it, nor what was not archived yet."
        )
    if not known.store and window.is_now:
        sentences.append(
            "A lake has no clock: the window ends now by that of the machine that made this page. What came since the "
            "last archiving is not in it, so that all may look as if it stood still."
        )
    if known.lake is None:
        sentences.append(
            "Only the store was read. What retention has removed is not in it: the past looks emptier than it was."
        )
    if overview["first"] is None:
        sentences.append("No message is known in this window or before it.")
    elif overview["first"].timestamp() * 1000 > window.since + window.step:
        sentences.append(f"The oldest message known came into the stream at {words.time(overview['first'])} UTC.")
    if overview["unplaced"]:
        sentences.append(
            f"Of {words.count(overview['unplaced'])} deliveries it is no longer known which message they were of: they "
            "are counted, but their messages may look unsettled."
        )
    sentences.append(
        f"What came into the stream more than {words.duration(LOOK_BACK)} before the window counts as settled; "
        f"hand-outs more than {words.duration(LOOK_AHEAD)} after it are not looked for."
    )
    sentences.append("A message that is redriven or replayed after it was settled is not in the backlog again.")
    sentences.append("Clients of broadcast topics do not ack: such topics are only in volumes and due minutes.")
    sentences.append("Percentiles are approximate: their rank is right to 0.01 %.")
    return sentences


def _tiles(figures: Mapping[str, Rows]) -> list[tuple[str, str, str]]:
    """The tiles as (name, number, text)."""
    overview, late = figures["overview"][0], figures["punctuality"][0]
    left = f"{words.count(overview['cancelled'])} cancelled before they were due"
    if overview["suppressed"]:
        left += f", {words.count(overview['suppressed'])} suppressed by guards"
    died = _of(overview["dead"], overview["messages"])
    if overview["expired"]:
        died += f"; {words.count(overview['expired'])} expired"
    return [
        ("Messages", words.count(overview["messages"]), left),
        ("Deliveries", words.count(overview["deliveries"]), f"{words.count(overview['acked'])} acked"),
        (
            "Lateness p99",
            words.duration(late["p99"]),
            f"{_in_one_line('median', late['p50'])}, {_in_one_line('p99.9', late['p999'])}",
        ),
        (
            "Failed or lost",
            words.count(overview["failed"] + overview["lost"]),
            f"{words.count(overview['lost'])} by a lost lease",
        ),
        ("Dead letters", words.count(overview["dead"]), died),
        ("Unsettled at the end", words.count(late["unsettled"]), _waits(overview["waiting"])),
    ]


def _waits(number: int) -> str:
    if not number:
        return "none waits for its time"
    return "1 more waits for its time" if number == 1 else f"{words.count(number)} more wait for their time"


def _in_one_line(what: str, ms: int | None) -> str:
    """A text with no-break spaces: a tile is narrow, and a break between a number and its unit is hard to read."""
    return f"{what} {words.duration(ms)}".replace(" ", "\u00a0")


def _of(part: int, whole: int) -> str:
    if not whole:
        return "of no messages"
    return "none" if not part else f"{words.share(part / whole)} of messages"
