"""The table of a campaign, in Markdown: a line a row."""

from collections.abc import Sequence

from attrs import frozen

from .stage import Outcome

HEAD = (
    *("row", "store", "nodes", "faults", "messages", "deliveries", "lost", "early", "again, explained"),
    *("unexplained", "violations", "latest", "back in", "seconds"),
)


@frozen
class Line:
    row: str
    store: str
    nodes: int
    outcome: Outcome

    def cells(self) -> list[str]:
        figures = self.outcome.report.figures
        return [
            *(self.row, self.store, str(self.nodes), str(self.outcome.faults), f"{figures['messages']:,}"),
            *(f"{figures['deliveries']:,}", str(figures["lost"]), str(figures["early"])),
            *(f"{sum(figures['explained'].values()):,}", str(figures["unexplained"]), str(figures["violations"])),
            *(f"{figures['latest_ms'] / 1000:.1f} s", f"{self.outcome.up_ms / 1000:.1f} s"),
            f"{self.outcome.seconds:.0f}",
        ]


def markdown(lines: Sequence[Line]) -> str:
    """The table."""
    rows = [HEAD, tuple("---" for _ in HEAD), *(tuple(line.cells()) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
