"""The table of all calls: `Router` finds by it, and /openapi.json is made from it, so that neither knows more.

What a call is about is the first line of its handler's docstring.
"""

from functools import cached_property

from attrs import frozen

from ...store.states import FINDABLE
from . import (
    answers,
    claims,
    clients,
    dead,
    finding,
    health,
    messages,
    positions,
    publishing,
    requests,
    schemas,
    topics,
)
from .call import Handler


@frozen
class Parameter:
    """A parameter of the query."""

    name: str
    about: str
    required: bool = False
    numbers: tuple[int, int] | None = None
    """A whole number from the one to the other."""
    words: tuple[str, ...] = ()
    """One of these."""
    form: schemas.Json | None = None
    """A text of this form."""


@frozen(slots=False)
class Operation:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    answer: type | tuple[type, ...] | str
    """This struct, or one of these; or the media type of what is no struct."""
    requests: tuple[type, ...] = ()
    """One of these structs is the body."""
    problems: tuple[str, ...] = ()
    """Kinds of problems that it may answer, beside `internal`."""
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    body_required: bool = True
    statuses: tuple[int, ...] = (200,)
    """Of its answers."""

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names of what the query may have."""
        return frozenset(parameter.name for parameter in self.query)

    @property
    def about(self) -> str:
        """What it does, on one line."""
        return (self.handler.__doc__ or "").partition("\n")[0].removesuffix(".")

    @property
    def answers(self) -> tuple[type, ...]:
        """The structs that it may answer."""
        if isinstance(self.answer, str):
            return ()
        return self.answer if isinstance(self.answer, tuple) else (self.answer,)

    @cached_property
    def waits_for_start(self) -> bool:
        """Until the store has answered, this is `stopping`."""
        return "stopping" in self.problems

    @cached_property
    def is_checked(self) -> bool:
        """It says no to names and parameters that it does not know."""
        return "bad-request" in self.problems


_TOPIC = "/v1/topics/{topic}"
_GROUP = "/v1/topics/{topic}/groups/{group}"
_CLAIM = "/v1/claims/{claim}"
_MESSAGE = "/v1/messages/{id}"
_CLIENT = "/v1/clients/{client}"

_PAGE = (
    Parameter("max", "how many at most, 1 to 1000; 100 unless said", numbers=(1, 1000)),
    Parameter("cursor", "of the page before"),
)
_KEY = {"type": "string"} | schemas.LABEL


def _time(name: str, about: str) -> Parameter:
    return Parameter(name, f"a time{about}", form=schemas.TIME)


_IDEMPOTENCY = Parameter("Idempotency-Key", "as the field idempotency_key; covers the whole request", form=_KEY)
_MAX = Parameter("max", "how many at most, 1 to 1000; 10 unless said", numbers=(1, 1000))
_SORT = Parameter("sort", "name, rate or backlog; name unless said", words=("name", "rate", "backlog"))
_FORCE = Parameter(
    "force",
    "true: also while messages wait or are unsettled; they are dropped; false unless said",
    words=("true", "false"),
)
_FOUND = (
    Parameter("topic", "a topic", required=True, form=schemas.NAME),
    Parameter("key", "a key; else state is needed", form=_KEY),
    Parameter("state", "what it is; from claimed on in a group", words=FINDABLE),
    _time("from", ": due then or later; of published, claimed, parked and dead ones, so since then"),
    _time("to", ", itself not included"),
    *_PAGE,
)
_UPCOMING = (
    Parameter("buckets", "how many, 1 to 100; 24 unless said", numbers=(1, 100)),
    Parameter("width", "a duration from 1 s on; 1 h unless said", form=schemas.DURATION),
    _time("from", " to begin at; now, with what is overdue, unless said"),
)
_DEAD = (
    Parameter("key", "of this key", form=_KEY),
    Parameter("reason", "a part of the last attempt's reason, upper and lower case alike"),
    _time("from", ": died then or later"),
    _time("to", ": died before"),
    *_PAGE,
)
_PULL = (
    Parameter("offset", "the first one; 0 unless said", numbers=(0, schemas.MAX_OFFSET)),
    _MAX,
    Parameter("wait", "a duration, up to 30 s; 0 unless said", form=schemas.DURATION),
)

_WRITES = ("busy", "overloaded", "stopping", "store-unavailable", "outcome-unknown")
_READS = ("stopping", "store-unavailable")
_INCOMING = ("too-large", "too-slow", "overloaded")
_BODY = ("bad-request", "unsupported-media-type", "cross-origin", *_INCOMING)
_NO_BODY = ("bad-request", "cross-origin")
_NO_TOPIC = ("bad-request", "unknown-topic", *_READS)
_NO_GROUP = ("bad-request", "unknown-topic", "unknown-group", *_READS)
_SETTLES = (*_BODY, "unknown-claim", "nothing-to-settle", "lease-lost", *_WRITES)
_OPERATES = (*_BODY, "unknown-topic", "unknown-group", *_WRITES)
_MOVES = (*_BODY, "unknown-topic", "unknown-group", "unknown-queue", "topic-conflict", *_WRITES)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST",
        f"{_TOPIC}/messages",
        publishing.publish,
        (answers.ReceiptAnswer, answers.BatchAnswer),
        requests=(requests.Message, requests.Batch),
        headers=(_IDEMPOTENCY,),
        problems=(*_BODY, "unknown-topic", "idempotency-conflict", *_WRITES),
        statuses=(201,),
    ),
    Operation("GET", "/v1/messages", finding.find_messages, answers.FoundPage, query=_FOUND, problems=_NO_TOPIC),
    Operation(
        "GET", f"{_TOPIC}/upcoming", finding.upcoming, answers.UpcomingAnswer, query=_UPCOMING, problems=_NO_TOPIC
    ),
    Operation(
        *("GET", _MESSAGE, messages.get_message, answers.FoundAnswer),
        problems=("bad-request", "unknown-message", *_READS),
    ),
    Operation(
        *("DELETE", _MESSAGE, messages.cancel, answers.CancelAnswer),
        problems=(*_NO_BODY, "unknown-message", "too-late", *_WRITES),
    ),
    Operation(
        *("PATCH", _MESSAGE, messages.reschedule, answers.RescheduleAnswer, (requests.Reschedule,)),
        problems=(*_BODY, "unknown-message", "too-late", "cancelled", *_WRITES),
    ),
    Operation(
        *("POST", f"{_GROUP}/claim", claims.claim, answers.ClaimAnswer, (requests.Claim,)),
        problems=(*_BODY, "not-built", "unknown-topic", "unknown-group", *_WRITES),
    ),
    Operation("POST", f"{_CLAIM}/ack", claims.ack, answers.AckAnswer, (requests.Ack,), _SETTLES, body_required=False),
    Operation(
        "POST", f"{_CLAIM}/fail", claims.fail, answers.FailAnswer, (requests.Fail,), _SETTLES, body_required=False
    ),
    Operation("POST", f"{_CLAIM}/extend", claims.extend, answers.ExtendAnswer, (requests.Extend,), _SETTLES),
    Operation(
        *("POST", "/v1/nudge", topics.nudge, answers.NudgeAnswer, (requests.Nudge,)),
        problems=(*_BODY, "unknown-topic", *_READS),
        body_required=False,
        statuses=(202,),
    ),
    Operation(
        "GET", "/v1/clients", clients.list_clients, answers.ClientPage, query=_PAGE, problems=("bad-request", *_READS)
    ),
    Operation("POST", f"{_CLIENT}/renew", clients.renew, answers.RenewAnswer, problems=(*_NO_BODY, *_WRITES)),
    Operation("DELETE", _CLIENT, clients.deregister, answers.DeregisterAnswer, problems=(*_NO_BODY, *_WRITES)),
    Operation(
        *("GET", "/v1/topics", topics.list_topics, answers.TopicList),
        query=(_SORT, *_PAGE),
        problems=("bad-request", *_READS),
    ),
    Operation("GET", _TOPIC, topics.get_topic, answers.TopicDetail, problems=_NO_TOPIC),
    Operation(
        *("PUT", _TOPIC, topics.put_topic, answers.TopicAnswer, (requests.PutTopic,)),
        problems=(*_BODY, "not-built", "topic-conflict", *_WRITES),
        body_required=False,
        statuses=(200, 201),
    ),
    Operation(
        *("DELETE", _TOPIC, topics.remove_topic, answers.RemovedTopic),
        query=(_FORCE,),
        problems=(*_NO_BODY, "unknown-topic", "topic-conflict", *_WRITES),
    ),
    Operation("GET", f"{_TOPIC}/groups", topics.list_groups, answers.GroupList, problems=_NO_TOPIC),
    Operation("GET", _GROUP, topics.get_group, answers.GroupDetail, problems=_NO_GROUP),
    Operation(
        *("PUT", _GROUP, topics.put_group, answers.GroupSummary, (requests.PutGroup,)),
        problems=(*_BODY, "not-built", "unknown-topic", "unknown-group", *_WRITES),
        body_required=False,
        statuses=(200, 201),
    ),
    Operation(
        *("DELETE", _GROUP, topics.remove_group, answers.RemovedGroup),
        problems=(*_NO_BODY, "unknown-topic", "unknown-group", *_WRITES),
    ),
    Operation("GET", f"{_GROUP}/dead", dead.list_dead, answers.DeadPage, query=_DEAD, problems=_NO_GROUP),
    Operation(
        *("POST", f"{_GROUP}/dead/redrive", dead.redrive, answers.RedriveAnswer, (requests.Letters,), _OPERATES),
        body_required=False,
    ),
    Operation(
        *("POST", f"{_GROUP}/dead/purge", dead.purge, answers.PurgeAnswer, (requests.Letters,), _OPERATES),
        body_required=False,
    ),
    Operation("POST", f"{_GROUP}/seek", positions.seek, answers.SeekAnswer, (requests.Seek,), _MOVES),
    Operation("POST", f"{_GROUP}/replay", positions.replay, answers.ReplayAnswer, (requests.Replay,), _MOVES),
    Operation(
        *("GET", f"{_TOPIC}/queues/{{queue}}/messages", claims.pull, answers.PullAnswer),
        query=_PULL,
        problems=("bad-request", *_INCOMING, "unknown-topic", "unknown-queue", *_READS),
    ),
    Operation("GET", "/livez", health.live, answers.Live, problems=("bad-request",)),
    Operation(
        *("GET", "/readyz", health.ready, answers.Ready),
        query=(Parameter("verbose", "tell each check"),),
        problems=("bad-request", "not-ready"),
    ),
    Operation("GET", "/metrics", health.metrics, "text/plain"),
    Operation("GET", "/", health.welcome, answers.Welcome),
    Operation("GET", "/problems/{kind}", health.kind_of_problem, answers.KindOfProblem, problems=("not-found",)),
)
