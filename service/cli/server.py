"""Which server a command talks to, and how its answers are shown."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from ...client import Forbidden, NotFound, Tarry
from .near import add_hint
from .printing import KEYS, UsageError, note, print_items

_PATIENCE = 5.0
"""Seconds that a command tries a server that is away before it ends with 75."""


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Server:
    """The flags of every command that talks to a server."""

    url: Annotated[str, Parameter(env_var="TARRY_URL", help="The server.")] = "http://127.0.0.1:8277"
    json: Annotated[bool, Parameter(negative=(), help="One JSON line per item.")] = False

    @contextmanager
    def client(self) -> Generator[Tarry, None, None]:
        """A client of the server."""
        try:
            tarry = Tarry(self.url, deadline=_PATIENCE)
        except ValueError as error:
            raise UsageError(str(error)) from error
        with tarry:
            try:
                yield tarry
            except NotFound as error:
                if error.status is not None:  # the server says so, and not a command with a hint of its own
                    add_hint(error, tarry)
                raise
            except Forbidden as error:
                if error.status == 401:
                    error.args = (f"{error}; {KEYS}",)
                raise

    def show(
        self, items: Iterable[Any], columns: Sequence[str], rows: Iterable[Sequence[object]], remark: str = ""
    ) -> int:
        """The items as JSON lines, or a table of these rows, with a remark on stderr. Exit code 0."""
        print_items(items, columns, rows, json=self.json)
        if remark and not self.json:
            note(remark)
        return 0


HERE = Server()
"""What a command talks to that is not told otherwise."""
