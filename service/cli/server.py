"""The flags that say which server a command talks to; also makes the client, and shows answers."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from ...client import Forbidden, NotFound, Tarry
from .flags import flag
from .near import add_hint
from .printing import KEYS, UsageError, note, print_items

_PATIENCE = 5.0
"""Seconds for which a command tries to reach a server before it exits with 75."""


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Server:
    """The flags of every command that talks to a server."""

    url: Annotated[str, Parameter(env_var="TARRY_URL", help="The server.")] = "http://127.0.0.1:8277"
    json: Annotated[bool, flag("One JSON line per item.")] = False

    @contextmanager
    def client(self) -> Generator[Tarry, None, None]:
        """A client of the server, whose errors get hints for the command line."""
        try:
            tarry = Tarry(self.url, deadline=_PATIENCE)
        except ValueError as error:
            raise UsageError(str(error)) from error
        with tarry:
            try:
                yield tarry
            except NotFound as error:
                if error.status is not None:  # the server's error, not a command's own, which has a hint already
                    add_hint(error, tarry)
                raise
            except Forbidden as error:
                if error.status == 401:
                    error.args = (f"{error}; {KEYS}",)
                raise

    def show(
        self, items: Iterable[Any], columns: Sequence[str], rows: Iterable[Sequence[object]], remark: str = ""
    ) -> int:
        """Prints the items as JSON lines, or these rows as a table with a remark on stderr. Returns the exit code 0."""
        print_items(items, columns, rows, json=self.json)
        if remark and not self.json:
            note(remark)
        return 0


HERE = Server()
"""The default server."""
