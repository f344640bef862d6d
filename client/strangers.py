"""Explains an answer that is not Tarry's: who gave it, most often a proxy on the way, and what to set there. Pure."""

from .http11 import Response

_REDIRECTS = range(300, 400)
_ADVICE = {
    400: "It may want https:// in place of http://.",
    401: "It wants credentials of its own: let it pass Tarry's `Authorization: Bearer KEY` on, and ask for no other.",
    403: "It lets nobody through to this path.",
    404: "It has nothing at this path: is the address right, and does it pass all paths below it on?",
    405: "It does not let this method through: Tarry needs GET, POST, PUT, PATCH and DELETE.",
    408: "The request did not reach it in its time.",
    411: "It wants to know the length of a body.",
    413: "The body is longer than it lets through: in nginx set `client_max_body_size 32m;`.",
    421: "It does not know this name.",
    429: "It lets so many requests through and no more.",
    431: "The headers are longer than it lets through.",
    500: "It has failed itself.",
    502: "It does not reach the server, or was cut off: is that up, and its address right there (`proxy_pass`)?",
    503: "It has no server that is ready, or lets no more requests through.",
    504: "The server did not answer in its time, and a claim may wait 30 s: in nginx set `proxy_read_timeout 90s;`.",
}


def told(url: str, response: Response) -> str:
    """The explanation for the caller, in a sentence or two."""
    kind = response.headers.get("content-type", "no content")
    answered = f"{url} answered {response.status} with {kind}"
    if response.is_success:
        return f"{answered}: is it Tarry?"
    if (name := response.headers.get("server", "")) and name.isprintable():
        answered += f" (server: {name[:100]})"
    place = response.headers.get("location", "")
    if response.status in _REDIRECTS and place.isprintable():
        advice = f"It sends to {place[:200]}: is that the server's address?"
    else:
        advice = _ADVICE.get(response.status, "Is the address right?")
    return f"{answered}. That is not Tarry's answer, but of a proxy before it, or of another server. {advice}"
