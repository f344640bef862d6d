"""Whole numbers of a command line, as the server's and the pipeline's commands take them.

Nothing is rounded: who writes 1.5 has meant something else than 2.
"""

import re
from collections.abc import Sequence
from typing import Protocol


class _Token(Protocol):
    @property
    def value(self) -> str: ...


def whole_number(_type: object, tokens: Sequence[_Token]) -> int:
    """The flag's value, as cyclopts asks for it. Raises ValueError, which says what to write."""
    text = tokens[0].value
    if re.fullmatch("-?[0-9]{1,18}", text) is None:
        raise ValueError(f'"{text[:40]}" is not a whole number, such as 2')
    return int(text)
