"""Access control: the scope that an operation needs, and the key or session that a request brings.

The table of all calls says what each needs. Key and path are checked before the body is read. If only the body, or the
message or claim of the path, tells the topic, the call itself checks it before it does anything (`Call.demand`,
`Call.own_message`, `Call.own_claim`).
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
"""The name of a browser's session cookie."""
CSRF = b"x-tarry-csrf"
"""The header that proves that one of our pages sends a write: another site's page could not read its value."""
_SAFE = ("GET", "HEAD")


class Of(Enum):
    """The object for which an operation needs a scope."""

    NOTHING = "nothing"
    """The operation needs no key at all."""
    PATH = "path"
    """The topic in the path, and its group."""
    QUERY = "query"
    """The topic in the query."""
    ALL = "all"
    """Everything: every topic and every group."""
    LATER = "later"
    """A topic that the call itself finds out: until then any scope of the verb is enough."""


@frozen
class Need:
    """What an operation needs: a scope with one of these verbs."""

    of: Of
    verbs: tuple[str, ...] = ()

    @property
    def is_audited(self) -> bool:
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
"""For consumers, too: they ask whether a topic and its group exist."""


def token_of(request: Request) -> bytes | None:
    sent = request.headers(b"authorization")
    if len(sent) != 1:
        return None
    scheme, _, token = sent[0].partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else None


def session_of(request: Request) -> str | None:
    """The text of the session cookie in the request, if any; a key in a header takes precedence."""
    if request.headers(b"authorization"):
        return None
    for sent in request.headers(b"cookie"):
        for cookie in sent.decode("latin-1").split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == SESSION:
                return value
    return None


def is_of_a_page(request: Request) -> bool:
    """Whether the request is a write from a browser: by a session or, where no key is required, from a page. A person
    clicks for each such call, so they are few, while programs may cancel and publish thousands of times a second."""
    if request.method in _SAFE or request.header(b"authorization") is not None:
        return False
    return request.header(b"origin") is not None or session_of(request) is not None


async def holder_of(request: Request, node: Node) -> Holder:
    """The holder of the request's key or session. Raises a `Problem`: 401, or 403 for a session's write without its
    header. Raises `Unavailable` if the store cannot tell."""
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
    """401 for a request without a valid key or session."""
    return Problem("unauthorized", detail, executed=False, headers=_BEARER)


def revoked() -> Problem:
    """401 for a request whose key was revoked while it was under way."""
    return unauthorized("the key was revoked meanwhile")


def check(need: Need, holder: Holder, request: Request) -> None:
    """Raises a `Problem`, 403, if the key's scopes do not cover what the operation needs."""
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
            return  # the call itself reports that it is required
        reached = any(scopes.reach(verb, topic, group) for verb in need.verbs)
        wanted = " or ".join(scope_text(verb, topic, group) for verb in need.verbs)
    if not reached:
        raise forbidden(holder, wanted)


def forbidden(holder: Holder, wanted: str) -> Problem:
    """403 for a key that lacks a scope."""
    return Problem("forbidden", f"the key {holder.name!r} has no scope {wanted}", executed=False)


def scope_text(verb: str, topic: str, group: str | None = None) -> str:
    return f"{verb}:{topic[:249]}/{(group or '*')[:249]}" if verb == "consume" else f"{verb}:{topic[:249]}"
