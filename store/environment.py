"""A secret in the environment: in a variable, or in a file that the variable with `_FILE` behind its name leads to."""

from collections.abc import Mapping
from pathlib import Path

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


def text_of(file: str | Path) -> str:
    """What the file holds. Raises ValueError, which names the file and says in words what is wrong."""
    try:
        return Path(file).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not text in UTF-8: byte {error.start} is not") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
