"""The two flags that say which store a command uses, and a way to work on that store beside its server."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import attrs
from cyclopts import Parameter

from ...store.opening import open_guest
from ...store.ports import Guest
from ..settings import Settings

T = TypeVar("T")


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class StoreOptions:
    """The flags for the store. Those left out come from the environment, the file or the defaults."""

    config: Annotated[Path | None, Parameter(help="Read this file instead of ./tarry.toml.")] = None
    dsn: Annotated[
        str | None, Parameter(help="The store: mysql://user:pw@host/db or sqlite:///tarry.db (the default).")
    ] = None

    def settings(self) -> Settings:
        """All settings, with these flags. Raises `SettingError`."""
        flags = attrs.asdict(self)
        return Settings.load(config=flags.pop("config"), flags=flags)

    def run(self, work: Callable[[Guest], Awaitable[T]]) -> T:
        """Runs `work` on the store, beside its server, and returns its result."""
        import trio

        dsn = self.settings().dsn

        async def run() -> T:
            guest = await open_guest(dsn)
            try:
                return await work(guest)
            finally:
                await guest.aclose()

        return trio.run(run)
