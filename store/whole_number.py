"""Parses whole numbers on the command line, for the server's and the pipeline's commands.

Nothing is rounded: a user who writes 1.5 does not mean 2.
"""

import re
from collections.abc import Sequence
from typing import Protocol


class _Token(Protocol):
    @property
    def value(self) -> str: ...


def whole_number(_type: object, tokens: Sequence[_Token]) -> int:
    """Converts the flag's value, for cyclopts. Raises ValueError, which says what to write."""
    text = tokens[0].value
    if re.fullmatch("-?[0-9]{1,18}", text) is None:
        raise ValueError(f'"{text[:40]}" is not a whole number, such as 2')
    return int(text)
