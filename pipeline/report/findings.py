"""The findings: a few sentences on what stands out in the figures, the worst first. Knows nothing of Spark."""

from collections.abc import Collection, Iterator, Mapping

from attrs import frozen

from . import words
from .charts import Rows
from .window import MINUTE, SECOND, Window

BAD, WARN, PLAIN = "bad", "warn", "plain"
_MOST = 8


@frozen
class Finding:
    level: str
    text: str
    figure: str
    """The figure that shows it."""


def findings(figures: Mapping[str, Rows], window: Window, unread: Collection[str] = ()) -> list[Finding]:
    """The findings, at most eight, and none if nothing happened at all. `unread`: topics that have no group."""
    every = (_early, _overdue, _behind, _dead, _lost, _late, _failing, _skew, _growth, _minute)
    found = [finding for look in every for finding in look(figures, window)]
    found += _unread(figures, unread)
    return sorted(found, key=lambda finding: (BAD, WARN, PLAIN).index(finding.level))[:_MOST]


def _early(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    if early := figures["punctuality"][0]["early"]:
        yield Finding(BAD, f"{_messages(early)} handed out before they were due. That must never be.", "lateness")


def _overdue(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    """Due messages that are not in the stream: the server stands still, or does not keep up."""
    row = figures["overview"][0]
    if row["overdue"] and row["oldest_overdue"] >= 10 * SECOND:
        text = (
            f"{_messages(row['overdue'])} past their time and not in the stream, the oldest due "
            f"{words.duration(row['oldest_overdue'])} before: no server is at work, or it does not keep up."
        )
        yield Finding(BAD, text, "due_minutes")


def _unread(figures: Mapping[str, Rows], unread: Collection[str]) -> Iterator[Finding]:
    """Topics that get messages and have no group."""
    filled = [row for row in figures["topics"] if row["topic"] in unread and row["messages"] + row["waiting"]]
    if filled:
        most = filled[0]
        others = _more(len(filled) - 1, "topic has no group either", "topics have no group either")
        came = _messages(most["messages"] + most["waiting"])
        yield Finding(WARN, f"Nobody reads {most['topic']}: {came}, and no group.{others}", "topics")


def _skew(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    uneven = [row for row in figures["queues"] if row["skew"] >= 2 and row["messages"] >= 100 * row["queues"]]
    if uneven:
        most = max(uneven, key=lambda row: row["messages"] * (row["skew"] - 1))
        part = words.share(most["fullest_messages"] / most["messages"])
        text = (
            f"Queue {most['fullest']} of {most['topic']} was given {part} of its messages, "
            f"{words.times(most['skew'])} the mean of its {most['queues']} queues."
        )
        yield Finding(PLAIN, text, "queues")


def _behind(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    """Groups whose oldest message nobody has had for more than a minute."""
    behind = [row for row in figures["slow_groups"] if (row["oldest"] or 0) > MINUTE and row["waiting"]]
    if behind:
        worst = behind[0]
        others = _more(figures["punctuality"][0]["behind"] - 1, "group is behind", "groups are behind")
        text = (
            f"{words.named(worst['topic'], worst['group'])} is behind: {_messages(worst['waiting'])} waiting at the "
            f"end of the window, the oldest due {words.duration(worst['oldest'])} before.{others}"
        )
        yield Finding(BAD, text, "slow_groups")


def _dead(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    dead = figures["overview"][0]["dead"]
    if dead and figures["dead_letters"]:
        most = max(figures["dead_letters"], key=lambda row: row["reason_dead"])
        reason = words.clipped(most["reason"] or "no reason given", 80)
        many = "letter" if dead == 1 else "letters"
        text = f"{words.count(dead)} dead {many}; the most frequent last reason is “{reason}”"
        yield Finding(BAD, f"{text} ({words.share(most['reason_dead'] / dead)}).", "dead_letters")


def _lost(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    lost, deliveries = figures["overview"][0]["lost"], figures["overview"][0]["deliveries"]
    if lost and figures["lost_leases"]:
        most = max(figures["lost_leases"], key=lambda row: row["client_lost"])
        text = (
            f"{words.count(lost)} of {words.count(deliveries)} deliveries ended with a lost lease; {most['client']} "
            f"lost most, {words.count(most['client_lost'])}."
        )
        yield Finding(WARN, text, "lost_leases")


def _late(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    row = figures["punctuality"][0]
    if row["p99"] is None:
        return
    text = f"Half of the messages were handed out within {words.duration(row['p50'])} of their time, 99 % within "
    text += f"{words.duration(row['p99'])}."
    if row["waiting"]:
        text += f" {_messages(row['waiting'])} that nobody has had yet counted with what they have waited so far."
    if row["streamed_p99"] * 2 < row["p99"]:
        streamed = words.duration(row["streamed_p99"])
        text += f" 99 % were in the stream within {streamed}: the rest is waiting for consumers."
    yield Finding(WARN if row["p99"] > 10 * SECOND else PLAIN, text, "lateness")
    cells = [cell for cell in figures["lateness"] if cell["handed_out"] + cell["waiting"] >= 10]
    if cells and row["p99"] > SECOND:
        worst = max(cells, key=lambda cell: cell["p99"])
        at = words.clock(worst["hour"], window.length)
        yield Finding(PLAIN, f"Latest were {worst['topic']} at {at}: p99 {words.duration(worst['p99'])}.", "lateness")


def _failing(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    again = sum(row["deliveries"] for row in figures["ladder"][1:])
    if again and (first := figures["ladder"][0])["attempt"] == 1:
        ok = first["acked"] / first["deliveries"]
        text = f"{words.share(ok)} of first attempts were acked; {words.count(again)} further attempts were made."
        yield Finding(WARN if ok < 0.9 else PLAIN, text, "ladder")


def _growth(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    grown = [row for row in figures["topics"] if row["growth"] is not None and row["messages"] >= 100]
    most = max(grown, key=lambda row: abs(row["growth"]), default=None)
    if most is not None and abs(most["growth"]) >= 0.2:
        way = "grew" if most["growth"] > 0 else "shrank"
        by = words.share(abs(most["growth"]))
        text = f"{most['topic']} {way} by {by}, from {words.count(most['before'])} to {_messages(most['messages'])}."
        yield Finding(PLAIN, text, "topics")


def _minute(figures: Mapping[str, Rows], window: Window) -> Iterator[Finding]:
    for row in figures["due_minutes"][:1]:
        text = f"The busiest minute is {words.time(row['minute'])} UTC with {_messages(row['messages'])} due."
        yield Finding(PLAIN, text, "due_minutes")


def _more(number: int, one: str, many: str) -> str:
    """A sentence on those that are not named."""
    return "" if number < 1 else f" One more {one}." if number == 1 else f" {words.count(number)} more {many}."


def _messages(number: int) -> str:
    return "1 message" if number == 1 else f"{words.count(number)} messages"
