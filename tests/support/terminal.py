"""A stream that acts as a terminal, with what a person types or what was shown on it."""

import io
import re


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def counts(self, what: str) -> list[int]:
        """The counts of finished rows that were shown, in order."""
        line = rf"{what}: ([\d,]+) rows, [\d,]+ a second, \d+ of \d+ tasks"
        return [int(number.replace(",", "")) for number in re.findall(line, self.getvalue())]
