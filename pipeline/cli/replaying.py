"""`tarry pipeline replay`: what a predicate picks out of the history, once more."""

import os
import sys
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from ..errors import StoreAway
from .codes import FAILED
from .options import AsJson, DsnOrLake, LakePlace, Master, Since, Until, check_rate, store_beside, window
from .summary import show_summary

_PATIENCE = 10.0
"""Seconds that a server has to answer before Spark is started."""


def replay(
    *,
    where: str = "true",
    to_topic: str | None = None,
    to_group: str | None = None,
    topic: str | None = None,
    since: Since = None,
    until: Until = None,
    server: str | None = None,
    dsn: DsnOrLake = None,
    lake: LakePlace = None,
    rate: float | None = None,
    name: str | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    as_json: AsJson = False,
    master: Master = None,
) -> int:
    """Replays messages of the history to a topic, as new ones, or to one group.

    Parameters
    ----------
    where
        A predicate of Spark's SQL over topic, id, key, ordering_key, tag, headers, body, queue, offset, accepted_at,
        deliver_at, streamed_at, group, outcome, attempt, client, reason and settled_at.
    to_topic
        They are published there, once under a name of a replay.
    to_group
        This group of `--topic` is handed them once more; they must still be in the store.
    topic
        Of this topic only.
    server
        http://host:port; TARRY_URL otherwise.
    rate
        Messages a second at the most.
    name
        Of the replay: run again under it, it goes on where it stopped.
    dry_run
        Count and forecast, and replay nothing.
    """
    if (to_topic is None) == (to_group is None):
        raise ValueError("--to-topic or --to-group: one of them")
    if to_group is not None and topic is None:
        raise ValueError("--to-group goes with --topic: a group is of one topic")
    check_rate(rate, "messages")
    from .. import session

    session.check()
    from .. import history
    from ..sending import replaying
    from ..sending.http_import import look_up
    from ..sending.importing import checked_name
    from ..sending.sinks import told

    name = checked_name(name) if name is not None else f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
    server = server or os.environ.get("TARRY_URL") or "http://127.0.0.1:8277"
    begin, end = window(since, until)
    try:
        look_up(server, to_topic or topic or "", to_group, deadline=0 if dry_run else _PATIENCE)
    except StoreAway as away:
        if not dry_run:
            raise
        sys.stderr.write(f"tarry pipeline: whether the target is there is not known: {away}\n")
    topics = None if topic is None else [topic]
    dsn = store_beside(dsn, lake)
    many = history.check(dsn, lake, topics)
    spark = session.open_session("replay", master, many)
    opened = history.open_tables(spark, dsn, lake, topics=topics, since=begin, until=end)
    there = None if dsn is None else history.open_live(spark, dsn, "messages", "queue_id", "offset", topics=topics)
    chosen = replaying.standing(replaying.selected(opened, where), there)
    with told():
        if dry_run:
            found = replaying.forecast(chosen, rate)
            show_summary(
                {
                    "would_replay": found.count,
                    "topics": found.topics,
                    "oldest": found.oldest,
                    "newest": found.newest,
                    "no_longer_in_the_store": found.gone,
                    "seconds_at_this_rate": found.seconds,
                },
                as_json=as_json,
            )
            return 0
        sys.stderr.write(f"replay {name}: to go on after an interruption, run it again with --name {name}\n")
        if to_topic is not None:
            done = replaying.to_topic(spark, chosen, server, to_topic, name, rate)
        else:
            done = replaying.to_group(spark, chosen, server, topic or "", to_group or "", name, rate)
    show_summary(
        {
            "name": name,
            "replayed": done.replayed,
            "skipped": done.skipped,
            "refused": done.refused,
        },
        as_json=as_json,
    )
    return FAILED if done.refused else 0
