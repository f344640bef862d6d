"""`tarry pipeline replay`: sends the messages once more that a predicate selects from the history."""

import os
import sys
from datetime import UTC, datetime

from attrs import asdict, frozen

from ..errors import FAILED, StoreAway
from .options import AsJson, DsnOrLake, Flat, LakeUrl, Master, Since, Until, check_rate, store_beside, window
from .summary import show_summary

_PATIENCE = 10.0
"""Seconds that a server has to answer before Spark is started."""


@frozen(kw_only=True)
class Target:
    """The target of a replay."""

    to_topic: str | None = None
    """The topic to publish them to, each once under a name of a replay."""
    to_group: str | None = None
    """The group of `--topic` that is given them once more; they must still be in the store."""
    topic: str | None = None
    """Only messages of this topic."""
    server: str | None = None
    """http://host:port; TARRY_URL otherwise."""

    def check(self) -> None:
        """Raises ValueError for options that do not go together."""
        if (self.to_topic is None) == (self.to_group is None):
            raise ValueError("--to-topic or --to-group: one of them")
        if self.to_group is not None and self.topic is None:
            raise ValueError("--to-group goes with --topic: a group is of one topic")

    @property
    def place(self) -> str:
        """The server's URL."""
        return self.server or os.environ.get("TARRY_URL") or "http://127.0.0.1:8277"

    def look_up(self, *, dry_run: bool) -> None:
        """Checks that the target is there. Raises `NotFound`, and `StoreAway` unless it is a dry run."""
        from ..sending.http_import import look_up

        try:
            look_up(self.place, self.to_topic or self.topic or "", self.to_group, deadline=0 if dry_run else _PATIENCE)
        except StoreAway as away:
            if not dry_run:
                raise
            sys.stderr.write(f"tarry pipeline: whether the target is there is not known: {away}\n")


_TARGET = Target()


def replay(
    *,
    where: str = "true",
    target: Flat[Target] = _TARGET,
    since: Since = None,
    until: Until = None,
    dsn: DsnOrLake = None,
    lake: LakeUrl = None,
    rate: float | None = None,
    name: str | None = None,
    dry_run: bool = False,
    as_json: AsJson = False,
    master: Master = None,
) -> int:
    """Replays messages of the history to a topic, as new ones, or to one group.

    Parameters
    ----------
    where
        A predicate of Spark's SQL over topic, id, key, ordering_key, tag, headers, body, queue, offset, accepted_at,
        deliver_at, expires_at, streamed_at, group, outcome, attempt, client, reason and settled_at.
    rate
        Messages a second at the most.
    name
        The name of the replay: run again under it, it goes on where it stopped.
    dry_run
        Count and forecast, and replay nothing.
    """
    target.check()
    check_rate(rate, "messages")
    from .. import session

    session.check()
    from .. import history
    from ..lake import erasures
    from ..sending import replaying
    from ..sending.importing import checked_name
    from ..spark_errors import translated

    name = checked_name(name) if name is not None else f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
    begin, end = window(since, until)
    target.look_up(dry_run=dry_run)
    topics = None if target.topic is None else [target.topic]
    dsn = store_beside(dsn, lake)
    spark = session.open_session("replay", master, history.check(dsn, lake, topics))
    opened = history.open_tables(spark, dsn, lake, topics=topics, since=begin, until=end)
    there = None if dsn is None else history.open_live(spark, dsn, "messages", "queue_id", "offset", topics=topics)
    chosen = replaying.standing(replaying.selected(opened, where), there)
    if target.to_topic is not None:  # a group gets erased ones too, marked as such
        chosen = replaying.unerased(chosen, [] if dsn is None else erasures.pending_ids(dsn))
    with translated():
        if dry_run:
            show_summary(replaying.forecast(chosen, rate).figures(), as_json=as_json)
            return 0
        sys.stderr.write(f"replay {name}: to go on after an interruption, run it again with --name {name}\n")
        if target.to_topic is not None:
            done = replaying.to_topic(spark, chosen, target.place, target.to_topic, name, rate)
        else:
            done = replaying.to_group(
                spark, chosen, target.place, target.topic or "", target.to_group or "", name, rate
            )
    show_summary({"name": name} | asdict(done), as_json=as_json)
    return FAILED if done.refused else 0
