"""A visit to a page: the parameters of its address, the visitor, and the API in the visitor's name."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from attrs import define, frozen

from ..access.scopes import Scopes
from ..http.asgi import Request
from ..http.problems import Problem
from ..http.reading import read_bytes
from .api import Api, Refused
from .words import utc

_TIMES = ("from", "to")
"""Fields for times: a browser sends them without a zone, and they are taken as UTC."""
LONGEST_FORM = 256 << 10
"""The most bytes of a form."""
_FIELDS = 1_000


@frozen
class Visitor:
    key: str | None
    """The key's name; None where no key is required."""
    scopes: Scopes
    csrf: str | None
    expires_at: str | None

    def may(self, verb: str, topic: str | None = None) -> bool:
        """Whether to show a button; the API itself refuses what is not allowed."""
        return self.scopes.reach_all(verb) if topic is None else self.scopes.reach(verb, topic)


@define
class Visit:
    request: Request
    api: Api
    visitor: Visitor
    parts: Mapping[str, str]
    """The variable parts of the path."""
    form: Mapping[str, list[str]]
    """The fields sent with a POST."""

    def asked(self, name: str) -> str:
        """A parameter of the query, stripped of spaces; empty if it is missing."""
        return self.request.query.get(name, "").strip()

    def sent(self, name: str) -> str:
        """A field of the form, stripped of spaces; empty if it is missing."""
        return next(iter(self.form.get(name, ())), "").strip()

    def query(self, *names: str) -> dict[str, str]:
        """Those of these parameters of the query that are not empty; `from` and `to` become times with a zone."""
        return _zoned({name: value for name in names if (value := self.asked(name))})

    def fields(self, *names: str) -> dict[str, str]:
        """Those of these fields of the form that are not empty; `from` and `to` become times with a zone."""
        return _zoned({name: value for name in names if (value := self.sent(name))})


def _zoned(said: dict[str, str]) -> dict[str, str]:
    return {name: utc(value) if name in _TIMES else value for name, value in said.items()}


async def visitor_of(api: Api) -> Visitor:
    """The visitor, as the API tells it. Raises `Refused`, 401."""
    told: dict[str, Any] = await api.get("/v1/session")
    return Visitor(told["key"], Scopes(told["scopes"]), told["csrf"], told["expires_at"])


async def read_form(request: Request, limit: int = LONGEST_FORM) -> dict[str, list[str]]:
    """The fields of a POST, empty ones too. Raises `Refused`, 400 or 413, and `ClientGone`."""
    try:
        content = await read_bytes(request, limit)
    except Problem as problem:
        raise Refused(problem.status, {"detail": problem.body.detail}) from None
    try:
        return parse_qs(content.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_FIELDS)
    except ValueError:
        raise Refused(400, {"detail": f"a form may have {_FIELDS} fields at most"}) from None
