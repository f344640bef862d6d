"""What the tasks know of Arrow: a batch of rows, column by column. (pyarrow has no types of its own.)"""

from typing import Any, Protocol


class Values(Protocol):
    """A column of a batch."""

    def to_pylist(self) -> list[Any]: ...


class Batch(Protocol):
    """A record batch of pyarrow's."""

    def column(self, name: str, /) -> Values: ...
