"""Every figure of the report: its name, what it is made of, its schema, and what it tells."""

from collections.abc import Callable

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ..schemas import Tables
from . import duty_figures, figures
from .window import Window


@frozen
class Figure:
    """Made of the tables, or of duties: exactly one of `of_tables` and `of_duties` is there."""

    name: str
    title: str
    tells: str
    schema: StructType
    of_tables: Callable[[Tables, Window], DataFrame] | None = None
    of_duties: Callable[[DataFrame, Window], DataFrame] | None = None

    def frame(self, tables: Tables, duties: DataFrame, window: Window) -> DataFrame:
        if self.of_tables is not None:
            return self.of_tables(tables, window)
        if self.of_duties is not None:
            return self.of_duties(duties, window)
        raise ValueError(f"{self.name} is made of nothing")


FIGURES = (
    Figure("overview", "Overview", "Counts of the whole window.", figures.OVERVIEW, of_tables=figures.overview),
    Figure(
        "punctuality",
        "Punctuality",
        "From due to the first hand-out, all topics together.",
        duty_figures.PUNCTUALITY,
        of_duties=duty_figures.punctuality,
    ),
    Figure(
        "rate",
        "Rate over time",
        "Messages that came into the stream, and deliveries that were acked or failed in all groups, a second.",
        figures.RATE,
        of_tables=figures.rate,
    ),
    Figure(
        "backlog",
        "Backlog over time",
        "What came into the stream and a group had not settled yet, for the groups with the highest peaks. "
        "Each strip has a scale of its own; the number at its right is the peak.",
        duty_figures.BACKLOG,
        of_duties=duty_figures.backlog,
    ),
    Figure(
        "slow_groups",
        "Slow groups",
        "From due to the first hand-out, by group, or so far: the dot is the median, the mark p99. First those whose "
        "oldest message waits longest at the end of the window.",
        duty_figures.SLOW_GROUPS,
        of_duties=duty_figures.slow_groups,
    ),
    Figure(
        "topics",
        "Topics by volume and growth",
        "Messages that came into the stream. In brackets, the growth over as long a time before.",
        figures.TOPICS,
        of_tables=figures.topics,
    ),
    Figure(
        "queues",
        "Skew of queues",
        "How many times the mean of its topic's queues the fullest one was given: 1 is even.",
        figures.QUEUES,
        of_tables=figures.queues,
    ),
    Figure(
        "lateness",
        "Lateness by topic and time",
        "From due to the first hand-out to any group, by when they were due. What nobody has had yet counts with what "
        "it has waited so far. An empty cell: nothing was due.",
        duty_figures.LATENESS,
        of_duties=duty_figures.lateness,
    ),
    Figure(
        "handling",
        "Handling time",
        "From the hand-out to the ack or the fail, by group: the dot is the median, the mark p99.",
        figures.HANDLING,
        of_tables=figures.handling,
    ),
    Figure(
        "ladder",
        "The retry ladder",
        "How many deliveries were a first, second, third attempt (on a logarithmic scale), and what became of them.",
        figures.LADDER,
        of_tables=figures.ladder,
    ),
    Figure(
        "dead_letters",
        "Dead letters by reason",
        "The reason that the last attempt gave.",
        figures.DEAD_LETTERS,
        of_tables=figures.dead_letters,
    ),
    Figure(
        "lost_leases",
        "Time-outs and lost leases by client",
        "Messages that a client held when its lease ran out, or when it was found dead.",
        figures.LOST_LEASES,
        of_tables=figures.lost_leases,
    ),
    Figure(
        "due_minutes",
        "Busiest due minutes",
        "For how many messages one minute was planned.",
        figures.DUE_MINUTES,
        of_tables=figures.due_minutes,
    ),
)
