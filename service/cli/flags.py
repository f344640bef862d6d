"""The forms that flags have: those without a negative, and those that take a whole number."""

from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter

from ...store.whole_number import whole_number


def flag(about: str, **more: Any) -> Parameter:
    """A flag without a negative: there is no --no-json."""
    return Parameter(help=about, negative=(), **more)


def whole(about: str) -> Parameter:
    """A flag that takes a whole number."""
    return Parameter(help=about, converter=whole_number)


Max: TypeAlias = Annotated[int | None, whole("At most so many; all unless said.")]
