"""Reads files that a user names, as text or TOML; errors name the file and say in words what is wrong."""

import tomllib
from pathlib import Path
from typing import Any


def text_of(file: str | Path) -> str:
    """The text of the file. Raises ValueError, which names the file and says in words what is wrong."""
    try:
        return Path(file).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not text in UTF-8: byte {error.start} is not") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def toml_of(file: str | Path) -> dict[str, Any]:
    """The contents of a TOML file. Raises ValueError as `text_of` does, and when the text is not TOML."""
    text = text_of(file)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
