"""The calls by which a browser exchanges a key for a session cookie, and ends it. `access.sessions` seals the
cookie."""

from ..access.keyring import Holder, NoKey
from ..access.sessions import LASTS, Session
from ..durations import format_time
from . import answers
from .access import SESSION, holder_of, session_of, unauthorized
from .asgi import Response
from .call import Call, answer
from .names import wrong_label
from .problems import bad_field
from .requests import SignIn


async def sign_in(call: Call) -> Response:
    """Exchange a key for a session, which comes as a cookie.

    It lasts twelve hours, or until its key is revoked.
    """
    node = call.node  # raises before the body is read if there is no node yet
    request = await call.read(SignIn)
    if wrong := wrong_label(request.key, 255):
        raise bad_field("/key", wrong)
    if node.keyring.anybody is not None:
        return answer(_told(node.keyring.anybody), 201)
    try:
        text, session = node.sessions.begin(request.key.encode())
    except NoKey as error:
        raise unauthorized(str(error)) from None
    response = answer(_told(session.holder, session), 201)
    response.add_header("Set-Cookie", _cookie(call, text, LASTS // 1000))
    return response


async def who(call: Call) -> Response:
    """Show who is signed in, and what the key may do.

    With a key in place of a session, show whose key it is.
    """
    holder, text = await holder_of(call.request, call.node), session_of(call.request)
    session = await call.node.sessions.find(text) if holder.name and text is not None else None
    return answer(_told(holder, session))


async def sign_out(call: Call) -> Response:
    """End the session, at every server, and delete its cookie.

    Without a session, or with one that is over, nothing is done.
    """
    text = session_of(call.request)
    if text is not None:
        await call.node.sessions.end(text)
    response = answer(answers.SignedOut())
    response.add_header("Set-Cookie", _cookie(call, "", 0))
    return response


def _told(holder: Holder, session: Session | None = None) -> answers.SessionAnswer:
    return answers.SessionAnswer(
        key=holder.name or None,
        scopes=list(holder.scopes.texts),
        expires_at=None if session is None else format_time(session.until),
        csrf=None if session is None else session.csrf,
    )


def _cookie(call: Call, text: str, seconds: int) -> str:
    # Secure only if this connection uses TLS. Behind a proxy that ends TLS the connection to the server is plain, and
    # the server cannot know whether the browser's is secure: if not, a Secure cookie would never come back.
    secure = "; Secure" if call.request.scope.get("scheme") == "https" else ""
    return f"{SESSION}={text}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
