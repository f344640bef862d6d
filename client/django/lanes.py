"""The topic of a task. Each queue has three, so that no urgent task waits in a stream behind others."""

from .configuration import Configuration

BANDS = ("high", "normal", "low")


def topic_of(of: Configuration, queue: str, priority: int) -> str:
    """The topic of a queue, by priority: above 0, 0, below 0."""
    return _named(of, queue, "high" if priority > 0 else "low" if priority < 0 else "normal")


def topics_of(of: Configuration, queue: str) -> list[str]:
    """All topics of a queue, the urgent first."""
    return [_named(of, queue, band) for band in BANDS]


def _named(of: Configuration, queue: str, band: str) -> str:
    return f"{of.prefix}.{queue}" if band == "normal" else f"{of.prefix}.{queue}.{band}"
