"""What stands out: a few sentences out of the figures, the worst first. Knows nothing of Spark."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import frozen

from . import words
from .window import MINUTE, SECOND, Window

Rows = Sequence[Mapping[str, Any]]

BAD, WARN, PLAIN = "bad", "warn", "plain"
_MOST = 8


@frozen
class Finding:
    level: str
    text: str
    figure: str
    """Where it can be seen."""


def findings(figures: Mapping[str, Rows], window: Window, unread: Collection[str] = ()) -> list[Finding]:
    """At most eight. None when nothing happened at all. `unread`: topics that have no group."""
    every = (_early, _overdue, _behind, _dead, _lost, _late, _failing, _skew, _growth, _minute)
    found = [finding for look in every for finding in look(figures, window)]
    found += _unread(figures, unread)
    order = {BAD: 0, WARN: 1, PLAIN: 2}
    return sorted(found, key=lambda finding: order[finding.level])[:_MOST]


def _early(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    early = figures["punctuality"][0]["early"]
    if not early:
        return []
    return [Finding(BAD, f"{_messages(early)} handed out before they were due. That must never be.", "lateness")]


def _overdue(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    """What nobody has moved into the stream: the server stands still, or does not keep up."""
    row = figures["overview"][0]
    if not row["overdue"] or row["oldest_overdue"] < 10 * SECOND:
        return []
    text = (
        f"{_messages(row['overdue'])} past their time and not in the stream, the oldest due "
        f"{words.duration(row['oldest_overdue'])} before: no server is at work, or it does not keep up."
    )
    return [Finding(BAD, text, "due_minutes")]


def _unread(figures: Mapping[str, Rows], unread: Collection[str]) -> list[Finding]:
    """Topics that take messages for nobody."""
    filled = [row for row in figures["topics"] if row["topic"] in unread and row["messages"] + row["waiting"]]
    if not filled:
        return []
    most, more = filled[0], len(filled) - 1
    others = f" {words.count(more)} more topics have no group either." if more > 1 else ""
    others = " One more topic has no group either." if more == 1 else others
    came = _messages(most["messages"] + most["waiting"])
    return [Finding(WARN, f"Nobody reads {most['topic']}: {came}, and no group.{others}", "topics")]


def _skew(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    uneven = [row for row in figures["queues"] if row["skew"] >= 2 and row["messages"] >= 100 * row["queues"]]
    if not uneven:
        return []
    most = max(uneven, key=lambda row: row["messages"] * (row["skew"] - 1))
    part = words.share(most["fullest_messages"] / most["messages"])
    text = (
        f"Queue {most['fullest']} of {most['topic']} was given {part} of its messages, "
        f"{words.times(most['skew'])} the mean of its {most['queues']} queues."
    )
    return [Finding(PLAIN, text, "queues")]


def _behind(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    """Groups whose oldest message nobody has had for more than a minute."""
    behind = [row for row in figures["slow_groups"] if (row["oldest"] or 0) > MINUTE and row["waiting"]]
    if not behind:
        return []
    worst, more = behind[0], figures["punctuality"][0]["behind"] - 1
    others = f" {words.count(more)} more groups are behind." if more > 1 else ""
    others = " One more group is behind." if more == 1 else others
    text = (
        f"{words.named(worst['topic'], worst['group'])} is behind: {_messages(worst['waiting'])} waiting at the end of "
        f"the window, the oldest due {words.duration(worst['oldest'])} before.{others}"
    )
    return [Finding(BAD, text, "slow_groups")]


def _dead(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    dead = figures["overview"][0]["dead"]
    if not dead or not figures["dead_letters"]:
        return []
    most = max(figures["dead_letters"], key=lambda row: row["reason_dead"])
    reason = words.clipped(most["reason"] or "no reason given", 80)
    many = "letter" if dead == 1 else "letters"
    text = f"{words.count(dead)} dead {many}; the most frequent last reason is “{reason}”"
    return [Finding(BAD, f"{text} ({words.share(most['reason_dead'] / dead)}).", "dead_letters")]


def _lost(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    lost, deliveries = figures["overview"][0]["lost"], figures["overview"][0]["deliveries"]
    if not lost or not figures["lost_leases"]:
        return []
    most = max(figures["lost_leases"], key=lambda row: row["client_lost"])
    text = (
        f"{words.count(lost)} of {words.count(deliveries)} deliveries ended with a lost lease; {most['client']} lost "
        f"most, {words.count(most['client_lost'])}."
    )
    return [Finding(WARN, text, "lost_leases")]


def _late(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    row = figures["punctuality"][0]
    if row["p99"] is None:
        return []
    text = f"Half of the messages were handed out within {words.duration(row['p50'])} of their time, 99 % within "
    text += f"{words.duration(row['p99'])}."
    if row["waiting"]:
        text += f" {_messages(row['waiting'])} that nobody has had yet counted with what they have waited so far."
    if row["streamed_p99"] * 2 < row["p99"]:
        streamed = words.duration(row["streamed_p99"])
        text += f" 99 % were in the stream within {streamed}: the rest is waiting for consumers."
    found = [Finding(WARN if row["p99"] > 10 * SECOND else PLAIN, text, "lateness")]
    cells = [cell for cell in figures["lateness"] if cell["handed_out"] + cell["waiting"] >= 10]
    if cells and row["p99"] > SECOND:
        worst = max(cells, key=lambda cell: cell["p99"])
        at = words.clock(worst["hour"], window.length)
        late = f"Latest were {worst['topic']} at {at}: p99 {words.duration(worst['p99'])}."
        found.append(Finding(PLAIN, late, "lateness"))
    return found


def _failing(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    if not figures["ladder"]:
        return []
    first = figures["ladder"][0]
    again = sum(row["deliveries"] for row in figures["ladder"][1:])
    if first["attempt"] != 1 or not again:
        return []
    ok = first["acked"] / first["deliveries"]
    text = f"{words.share(ok)} of first attempts were acked; {words.count(again)} further attempts were made."
    return [Finding(WARN if ok < 0.9 else PLAIN, text, "ladder")]


def _growth(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    grown = [row for row in figures["topics"] if row["growth"] is not None and row["messages"] >= 100]
    if not grown:
        return []
    most = max(grown, key=lambda row: abs(row["growth"]))
    if abs(most["growth"]) < 0.2:
        return []
    way = "grew" if most["growth"] > 0 else "shrank"
    by = words.share(abs(most["growth"]))
    text = f"{most['topic']} {way} by {by}, from {words.count(most['before'])} to {_messages(most['messages'])}."
    return [Finding(PLAIN, text, "topics")]


def _minute(figures: Mapping[str, Rows], window: Window) -> list[Finding]:
    if not figures["due_minutes"]:
        return []
    row = figures["due_minutes"][0]
    text = f"The busiest minute is {words.time(row['minute'])} UTC with {_messages(row['messages'])} due."
    return [Finding(PLAIN, text, "due_minutes")]


def _messages(number: int) -> str:
    return "1 message" if number == 1 else f"{words.count(number)} messages"
