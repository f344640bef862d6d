"""Problems: every error answer, after RFC 9457. The table here says what each kind means."""

from collections.abc import Mapping, Sequence
from uuid import uuid4

import msgspec
import structlog

from ...store.errors import Contention, GroupGone, OutcomeUnknown, Refused, StoreError, TopicGone, Unavailable, Unfit
from .. import errors
from ..outages import tell_failure, why_away
from .asgi import BadAddress, Response

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"

KINDS: Mapping[str, tuple[int, str]] = {
    "bad-request": (400, "The request is not valid"),
    "not-built": (400, "This version cannot do that yet"),
    "unauthorized": (401, "A key is needed"),
    "forbidden": (403, "The key does not reach this"),
    "cross-origin": (403, "The request comes from another site's page"),
    "not-found": (404, "There is no such path"),
    "unknown-topic": (404, "There is no such topic"),
    "unknown-group": (404, "There is no such group"),
    "unknown-queue": (404, "There is no such queue"),
    "unknown-push": (404, "The messages of this group are not pushed"),
    "unknown-claim": (404, "There is no such claim"),
    "unknown-message": (404, "There is no such message"),
    "unknown-timer": (404, "There is no such timer"),
    "unknown-schedule": (404, "There is no such schedule"),
    "unknown-report": (404, "There is no such report"),
    "method-not-allowed": (405, "The path does not know this method"),
    "too-slow": (408, "The request did not come in time"),
    "topic-conflict": (409, "The topic cannot be changed in this way"),
    "nothing-to-settle": (409, "Messages of a broadcast topic are neither acked nor failed"),
    "too-late": (409, "The message had been handed to the stream"),
    "cancelled": (409, "The message was cancelled"),
    "suppressed": (409, "The message was suppressed by its guard"),
    "still-waits": (409, "The message still waits for its time"),
    "lease-lost": (409, "The lease of this claim is over, or the messages are not in its hands"),
    "precondition-failed": (412, "It is not at the revision that was asked for"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "The body is not JSON"),
    "wrong-host": (421, "The server is not called by this name"),
    "idempotency-conflict": (422, "The idempotency key was used with another request"),
    "too-many": (429, "The topic takes no more for now"),
    "head-too-large": (431, "The request line and the headers are too large"),
    "internal": (500, "Something is wrong with the server"),
    "not-implemented": (501, "The server knows no such transfer coding"),
    "held-back": (503, "An earlier message of its ordering key failed"),
    "busy": (503, "Somebody else holds what this needs; try again in a moment"),
    "overloaded": (503, "Too much is waiting; try again in a moment"),
    "stopping": (503, "The server is starting or stopping"),
    "not-ready": (503, "The server is not ready"),
    "store-unavailable": (503, "The store is away"),
    "outcome-unknown": (503, "The store was lost while it wrote"),
    "http-version": (505, "The server does not speak this version of HTTP"),
}


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault of one field (a JSON pointer into the body) or of one parameter of the query."""

    detail: str
    pointer: str | msgspec.UnsetType = msgspec.UNSET
    parameter: str | msgspec.UnsetType = msgspec.UNSET


class Check(msgspec.Struct, frozen=True):
    """One line of /readyz?verbose."""

    check: str
    ok: bool
    detail: str | None = None


class ProblemBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem after RFC 9457, with members of Tarry's own."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[Fault] | msgspec.UnsetType = msgspec.UNSET
    result: str | msgspec.UnsetType = msgspec.UNSET
    """With a 409: lease_lost, too_late, cancelled, suppressed or waiting."""
    executed: bool | msgspec.UnsetType = msgspec.UNSET
    """False: nothing was done. A 500 or 503 without it may hide a commit."""
    request_id: str | msgspec.UnsetType = msgspec.UNSET
    """With a 500: the id under which the server's log tells more."""
    checks: list[Check] | msgspec.UnsetType = msgspec.UNSET
    revision: int | msgspec.UnsetType | None = msgspec.UNSET
    """With a 412: the current revision; null if there is none."""
    queue: int | msgspec.UnsetType = msgspec.UNSET
    offset: int | msgspec.UnsetType = msgspec.UNSET
    """Where the message of a timer is, if it is too late to change it."""


class Problem(Exception):
    """An error answer; raised anywhere while a request is served, and turned into the answer by the app."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        result: str | None = None,
        executed: bool | None = None,
        request_id: str | None = None,
        checks: Sequence[Check] = (),
        headers: Mapping[str, str] | None = None,
        revision: int | msgspec.UnsetType | None = msgspec.UNSET,
        place: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status, title = KINDS[kind]
        self.headers = dict(headers or {})
        self.body = ProblemBody(
            type=f"/problems/{kind}",
            title=title,
            status=self.status,
            detail=detail,
            errors=list(faults) or msgspec.UNSET,
            result=msgspec.UNSET if result is None else result,
            executed=msgspec.UNSET if executed is None else executed,
            request_id=msgspec.UNSET if request_id is None else request_id,
            checks=list(checks) or msgspec.UNSET,
            revision=revision,
            queue=msgspec.UNSET if place is None else place[0],
            offset=msgspec.UNSET if place is None else place[1],
        )

    def encoded(self) -> bytes:
        return msgspec.json.encode(self.body)

    def response(self) -> Response:
        return Response(self.encoded(), self.status, MEDIA_TYPE, self.headers)


def bad_field(pointer: str, detail: str) -> Problem:
    return Problem("bad-request", f"{pointer or 'the body'}: {detail}", faults=[Fault(detail, pointer=pointer)])


def bad_parameter(name: str, detail: str) -> Problem:
    return Problem("bad-request", f"?{name}: {detail}", faults=[Fault(detail, parameter=name)])


def bad_cursor() -> Problem:
    """400 for a cursor that is from no page."""
    return bad_parameter("cursor", "pass the cursor of the page before, as it is")


def idempotency_conflict() -> Problem:
    """422 for a publication whose idempotency key was used with another request."""
    return Problem("idempotency-conflict", "this topic has seen the idempotency key with another request")


# The first that fits counts. A number is Retry-After in seconds, and means that nothing was done.
_SERVICE: tuple[tuple[type[errors.ServiceError], str, int | None], ...] = (
    (errors.UnknownTopic, "unknown-topic", None),
    (errors.UnknownGroup, "unknown-group", None),
    (errors.UnknownPush, "unknown-push", None),
    (errors.UnknownClaim, "unknown-claim", None),
    (errors.NotBuilt, "not-built", None),
    (errors.TopicConflict, "topic-conflict", None),
    (errors.NothingToSettle, "nothing-to-settle", None),
    (errors.Busy, "busy", 1),
    (errors.Overloaded, "overloaded", 1),
    (errors.TooMany, "too-many", 1),
    (errors.Stopping, "stopping", 2),
)


def problem_of(error: Exception) -> Problem | None:
    """The problem of an expected error; None for an error that should not have happened."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, BadAddress):
        return Problem("bad-request", str(error))
    if isinstance(error, errors.ServiceError):
        for type_, kind, again in _SERVICE:
            if isinstance(error, type_):
                detail = str(error) or KINDS[kind][1]
                if again is None:
                    field = error.field if isinstance(error, errors.TopicConflict) else None
                    faults = () if field is None else (Fault(detail, pointer=f"/{field}"),)
                    return Problem(kind, detail, faults=faults)
                seconds = error.seconds if isinstance(error, errors.TooMany) else again
                return Problem(kind, detail, executed=False, headers={"Retry-After": str(seconds)})
    return _problem_of_store(error) if isinstance(error, StoreError) else None


def unexpected(error: Exception, route: str) -> Problem:
    """The problem of an error that should not have happened; the log has its details."""
    request_id = uuid4().hex
    log.error("request_failed", request_id=request_id, route=route or None, exc_info=error)
    detail = f"something is wrong with the server; its log tells more under {request_id}"
    return Problem("internal", detail, request_id=request_id)


def _problem_of_store(error: StoreError) -> Problem | None:
    # The drivers' texts name hosts, tables and statements: they are for the log, not for the caller.
    again = {"Retry-After": "1"}
    if isinstance(error, OutcomeUnknown):
        detail = "the connection to the store was lost at the commit: what was asked may have been done, or not"
        return Problem("outcome-unknown", detail, headers=again)
    if isinstance(error, Unavailable):
        tell_failure("store_unavailable", error, code=error.code)
        return Problem("store-unavailable", f"{why_away(error)}; try again", executed=False, headers=again)
    if isinstance(error, Contention):
        return Problem("busy", "other transactions were in the way; try again", executed=False, headers=again)
    if isinstance(error, TopicGone | GroupGone):
        return Problem("unknown-topic" if isinstance(error, TopicGone) else "unknown-group", str(error))
    if isinstance(error, Unfit):
        tell_failure("store_refused", error, code=error.code)
        detail = f"{why_away(error)}; nothing is wrong with the request"
        return Problem("store-unavailable", detail, executed=False, headers={"Retry-After": "10"})
    if isinstance(error, Refused):
        log.warning("store_refused", error=str(error), code=error.code)
        return Problem("bad-request", "the store refuses this data: too long, out of range or malformed")
    return None
