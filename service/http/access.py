"""Whether who asks may: what an operation needs, as the table of all calls says, and the key that a request brings.

Key and path are looked at before the body is read; what only the body names, or the message or the claim of the path
tell, is looked at by the call itself, before it does anything (`Call.demand`, `Call.own_message`, `Call.own_claim`).
"""

import hmac
from enum import Enum

from attrs import frozen

from ..access.keyring import Holder, NoKey
from ..node import Node
from .asgi import Request
from .problems import Problem

_BEARER = {"WWW-Authenticate": "Bearer"}
SESSION = "tarry_session"
"""The cookie that a browser brings."""
CSRF = b"x-tarry-csrf"
"""The header that proves of a write that a page of ours sends it, and not only its browser."""
_SAFE = ("GET", "HEAD")


class Of(Enum):
    """Of what an operation needs its scope."""

    NOTHING = "nothing"
    """It needs no key at all."""
    PATH = "path"
    """Of the topic in the path, and its group."""
    QUERY = "query"
    """Of the topic in the query."""
    ALL = "all"
    """Of everything."""
    LATER = "later"
    """Of what the call finds out: here it is enough that there is any such scope."""


@frozen
class Need:
    """What an operation needs: a scope by one of these verbs."""

    of: Of
    verbs: tuple[str, ...] = ()

    @property
    def is_audited(self) -> bool:
        """Whether it is an operator's."""
        return self.verbs == ("operate",)


NOTHING = Need(Of.NOTHING)
PUBLISH = Need(Of.PATH, ("publish",))
PUBLISH_LATER = Need(Of.LATER, ("publish",))
CONSUME = Need(Of.PATH, ("consume",))
CONSUME_LATER = Need(Of.LATER, ("consume",))
OPERATE = Need(Of.PATH, ("operate",))
OPERATE_LATER = Need(Of.LATER, ("operate",))
READ = Need(Of.PATH, ("read",))
READ_QUERY = Need(Of.QUERY, ("read",))
READ_LATER = Need(Of.LATER, ("read",))
READ_ALL = Need(Of.ALL, ("read",))
KNOW = Need(Of.PATH, ("read", "consume"))
"""Also who consumes asks whether a topic and its group are there."""


def token_of(request: Request) -> bytes | None:
    """The text of the key that a request brings, if any."""
    sent = request.headers(b"authorization")
    if len(sent) != 1:
        return None
    scheme, _, token = sent[0].partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else None


def session_of(request: Request) -> str | None:
    """The text of the session that a browser brings, if any; a key in a header goes before it."""
    if request.headers(b"authorization"):
        return None
    for sent in request.headers(b"cookie"):
        for cookie in sent.decode("latin-1").split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == SESSION:
                return value
    return None


def is_of_a_page(request: Request) -> bool:
    """A write from a browser: by a session or, where no key is asked for, from a page. Somebody sits there and has
    clicked, so that such calls are few, while programs may cancel and publish thousands of times a second."""
    if request.method in _SAFE or request.header(b"authorization") is not None:
        return False
    return request.header(b"origin") is not None or session_of(request) is not None


async def holder_of(request: Request, node: Node) -> Holder:
    """Who asks. Raises a `Problem`, 401, or 403 for a session's write without its header; and `Unavailable` where
    nobody can tell."""
    keyring = node.keyring
    if keyring.anybody is not None:
        request.credit.know("")
        return keyring.anybody
    text = session_of(request)
    try:
        if text is None:
            holder = keyring.find(token_of(request))
            request.credit.know(holder.name)
            return holder
        session = await node.sessions.find(text)
    except NoKey as error:
        raise unauthorized(str(error)) from None
    request.credit.know(session.holder.name)
    sent = (request.header(CSRF) or "").encode("latin-1")
    if request.method not in _SAFE and not hmac.compare_digest(sent, session.csrf.encode()):
        detail = "a session's write brings what GET /v1/session tells as csrf, in the header X-Tarry-CSRF"
        raise Problem("cross-origin", detail, executed=False)
    return session.holder


def unauthorized(detail: str) -> Problem:
    """401."""
    return Problem("unauthorized", detail, executed=False, headers=_BEARER)


def revoked() -> Problem:
    """401 for a request under way."""
    return unauthorized("the key was revoked meanwhile")


def check(need: Need, holder: Holder, request: Request) -> None:
    """Raises a `Problem`, 403, where the key's scopes do not reach what the operation is about."""
    scopes = holder.scopes
    if scopes.admin:
        return
    if need.of is Of.LATER:
        reached = any(scopes.have(verb) for verb in need.verbs)
        wanted = " or ".join(f"{verb}:..." for verb in need.verbs)
    elif need.of is Of.ALL:
        reached = any(scopes.reach_all(verb) for verb in need.verbs)
        wanted = " or ".join(f"{verb}:*" for verb in need.verbs)
    else:
        asked = request.query if need.of is Of.QUERY else request.parts
        topic, group = asked.get("topic"), request.parts.get("group")
        if topic is None:
            return  # the call says that it is required
        reached = any(scopes.reach(verb, topic, group) for verb in need.verbs)
        wanted = " or ".join(scope_text(verb, topic, group) for verb in need.verbs)
    if not reached:
        raise forbidden(holder, wanted)


def forbidden(holder: Holder, wanted: str) -> Problem:
    """403 for a key that lacks a scope."""
    return Problem("forbidden", f"the key {holder.name!r} has no scope {wanted}", executed=False)


def scope_text(verb: str, topic: str, group: str | None = None) -> str:
    """A scope as it is written."""
    return f"{verb}:{topic[:249]}/{(group or '*')[:249]}" if verb == "consume" else f"{verb}:{topic[:249]}"
