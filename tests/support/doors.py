"""A front door with a server's default limits."""

from typing import Any

from tarry.service.http.server.front_door import FrontDoor
from tarry.service.http.server.ports import App
from tarry.service.settings import Settings


def front_door(app: App, **own: Any) -> FrontDoor:
    """A front door that ends within a second; `own` are its other fields."""
    limits = Settings()
    return FrontDoor(app, 1, limits.max_incoming, limits.body_timeout / 1000, **own)
