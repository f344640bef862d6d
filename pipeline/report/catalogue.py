"""Every figure of the report: its name, what it is made of, its schema, and what it tells."""

from collections.abc import Callable
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from . import duty_figures, figures, schedule_figures
from .window import Window


@frozen
class Figure:
    """A figure: its name, what it tells, and how it is made."""

    name: str
    title: str
    tells: str
    schema: StructType
    make: Callable[[Any, Window], DataFrame]
    """Makes it of `Tables`, or of duties."""
    of_duties: bool = False


FIGURES = (
    Figure("overview", "Overview", "Counts of the whole window.", figures.OVERVIEW, figures.overview),
    Figure(
        "punctuality",
        "Punctuality",
        "From due to the first hand-out, all topics together.",
        duty_figures.PUNCTUALITY,
        duty_figures.punctuality,
        of_duties=True,
    ),
    Figure(
        "rate",
        "Rate over time",
        "Messages that came into the stream, and deliveries that were acked or failed in all groups, a second.",
        figures.RATE,
        figures.rate,
    ),
    Figure(
        "backlog",
        "Backlog over time",
        "What came into the stream and a group had not settled yet, for the groups with the highest peaks. "
        "Each strip has a scale of its own; the number at its right is the peak.",
        duty_figures.BACKLOG,
        duty_figures.backlog,
        of_duties=True,
    ),
    Figure(
        "slow_groups",
        "Slow groups",
        "From due to the first hand-out, by group, or so far: the dot is the median, the mark p99. First those whose "
        "oldest message waits longest at the end of the window.",
        duty_figures.SLOW_GROUPS,
        duty_figures.slow_groups,
        of_duties=True,
    ),
    Figure(
        "topics",
        "Topics by volume and growth",
        "Messages that came into the stream. In brackets, the growth over as long a time before.",
        figures.TOPICS,
        figures.topics,
    ),
    Figure(
        "queues",
        "Skew of queues",
        "How many times the mean of its topic's queues the fullest one was given: 1 is even.",
        figures.QUEUES,
        figures.queues,
    ),
    Figure(
        "lateness",
        "Lateness by topic and time",
        "From due to the first hand-out to any group, by when they were due. What nobody has had yet counts with what "
        "it has waited so far. An empty cell: nothing was due.",
        duty_figures.LATENESS,
        duty_figures.lateness,
        of_duties=True,
    ),
    Figure(
        "handling",
        "Handling time",
        "From the hand-out to the ack or the fail, by group: the dot is the median, the mark p99.",
        figures.HANDLING,
        figures.handling,
    ),
    Figure(
        "ladder",
        "The retry ladder",
        "How many deliveries were a first, second, third attempt (on a logarithmic scale), and what became of them.",
        figures.LADDER,
        figures.ladder,
    ),
    Figure(
        "dead_letters",
        "Dead letters by reason",
        "The reason that the last attempt gave.",
        figures.DEAD_LETTERS,
        figures.dead_letters,
    ),
    Figure(
        "lost_leases",
        "Time-outs and lost leases by client",
        "Messages that a client held when its lease ran out, or when it was found dead.",
        figures.LOST_LEASES,
        figures.lost_leases,
    ),
    Figure(
        "schedules",
        "Schedules",
        "What became of their fire times, and from when a message was due to the stream. First those of which most "
        "were late or left out.",
        schedule_figures.SCHEDULES,
        schedule_figures.schedules,
    ),
    Figure(
        "due_minutes",
        "Busiest due minutes",
        "For how many messages one minute was planned.",
        figures.DUE_MINUTES,
        figures.due_minutes,
    ),
)
