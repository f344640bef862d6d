"""Reads secrets from the environment: from a variable, or from the file that the variable with `_FILE` appended
names."""

from collections.abc import Mapping

from .named_files import text_of

FILE = "_FILE"


def secret(variable: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """The value and the name of the variable that it came from; None when neither is set. Raises ValueError."""
    pointer = f"{variable}{FILE}"
    if pointer not in environment:
        return (environment[variable], variable) if variable in environment else None
    if variable in environment:
        raise ValueError(f"{pointer} and {variable} are both set: leave one of them out")
    try:
        return text_of(environment[pointer]).strip(), pointer
    except ValueError as error:
        raise ValueError(f"{pointer}: {error}") from None
