"""A stream that is a terminal: what somebody types there, or what was to be seen on it."""

import io
import re


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def counts(self, what: str) -> list[int]:
        """The rows that were shown as done, one after the other."""
        line = rf"{what}: ([\d,]+) rows, [\d,]+ a second, \d+ of \d+ tasks"
        return [int(number.replace(",", "")) for number in re.findall(line, self.getvalue())]
