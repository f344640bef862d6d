"""A visit of a page: what the address says, who visits, and the API in his name."""

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
"""Of these a browser sends no zone: they are UTC."""
LONGEST_FORM = 256 << 10
"""Bytes."""
_FIELDS = 1_000


@frozen
class Visitor:
    """Who is signed in."""

    key: str | None
    """Its name; None where no key is asked for."""
    scopes: Scopes
    csrf: str | None
    expires_at: str | None

    def may(self, verb: str, topic: str | None = None) -> bool:
        """Whether a button makes sense. It is the API that refuses."""
        return self.scopes.reach_all(verb) if topic is None else self.scopes.reach(verb, topic)


@define
class Visit:
    """A request for a page."""

    request: Request
    api: Api
    visitor: Visitor
    parts: Mapping[str, str]
    """Of the path."""
    form: Mapping[str, list[str]]
    """What was sent with a POST."""

    def asked(self, name: str) -> str:
        """A parameter of the query without spaces around it; empty when it is not there."""
        return self.request.query.get(name, "").strip()

    def sent(self, name: str) -> str:
        """A field of the form; empty when it is not there."""
        return next(iter(self.form.get(name, ())), "").strip()

    def query(self, *names: str) -> dict[str, str]:
        """These parameters of the query, as far as they are there; `from` and `to` as times that have a zone."""
        return _zoned({name: value for name in names if (value := self.asked(name))})

    def fields(self, *names: str) -> dict[str, str]:
        """The same of the form."""
        return _zoned({name: value for name in names if (value := self.sent(name))})


def _zoned(said: dict[str, str]) -> dict[str, str]:
    return {name: utc(value) if name in _TIMES else value for name, value in said.items()}


async def visitor_of(api: Api) -> Visitor:
    """Who asks. Raises `Refused`, 401."""
    told: dict[str, Any] = await api.get("/v1/session")
    return Visitor(told["key"], Scopes(told["scopes"]), told["csrf"], told["expires_at"])


async def read_form(request: Request, limit: int = LONGEST_FORM) -> dict[str, list[str]]:
    """The fields of a POST, those that are empty too. Raises `Refused`, 400 and 413, and `ClientGone`."""
    try:
        content = await read_bytes(request, limit)
    except Problem as problem:
        raise Refused(problem.status, {"detail": problem.body.detail}) from None
    try:
        return parse_qs(content.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_FIELDS)
    except ValueError:
        raise Refused(400, {"detail": f"a form may have {_FIELDS} fields at most"}) from None
