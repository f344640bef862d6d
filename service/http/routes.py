"""The table of all calls: Starlette routes by it, and /openapi.json is made from it, so that neither knows more."""

from collections.abc import Mapping

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
    removing,
    requests,
    schemas,
    topics,
)
from .call import Handler

_WRITES = ("busy", "overloaded", "stopping", "store-unavailable", "outcome-unknown")
_READS = ("stopping", "store-unavailable")
_INCOMING = ("too-large", "too-slow", "overloaded")
_BODY = ("bad-request", "unsupported-media-type", "cross-origin", *_INCOMING)


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


@frozen
class Operation:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    about: str
    answers: Mapping[int, tuple[type, ...] | str]
    """By status: one of these structs, or the media type of what is no JSON."""
    requests: tuple[type, ...] = ()
    """One of these structs is the body."""
    body_required: bool = True
    query: tuple[Parameter, ...] = ()
    problems: tuple[str, ...] = ()
    """Kinds of problems that it may answer, beside `internal`."""
    headers: tuple[Parameter, ...] = ()

    @property
    def waits_for_start(self) -> bool:
        """Until the store has answered, this is `stopping`."""
        return "stopping" in self.problems


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

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        *("POST", f"{_TOPIC}/messages", publishing.publish, "Publish now or later, one message or a batch"),
        answers={201: (answers.ReceiptAnswer, answers.BatchAnswer)},
        requests=(requests.Message, requests.Batch),
        headers=(_IDEMPOTENCY,),
        problems=(*_BODY, "unknown-topic", "idempotency-conflict", *_WRITES),
    ),
    Operation(
        *("GET", "/v1/messages", finding.find_messages, "Find messages by key, or by state, and by time"),
        answers={200: (answers.FoundPage,)},
        query=(
            Parameter("topic", "a topic", required=True, form=schemas.NAME),
            Parameter("key", "a key; else state is needed", form=_KEY),
            Parameter(
                *("state", "what it is; from claimed on in a group"),
                words=FINDABLE,
            ),
            _time("from", ": due then or later; of published, claimed, parked and dead ones, so since then"),
            _time("to", ", itself not included"),
            *_PAGE,
        ),
        problems=("bad-request", "unknown-topic", *_READS),
    ),
    Operation(
        *("GET", f"{_TOPIC}/upcoming", finding.upcoming, "How many messages fall due when"),
        answers={200: (answers.UpcomingAnswer,)},
        query=(
            Parameter("buckets", "how many, 1 to 100; 24 unless said", numbers=(1, 100)),
            Parameter("width", "a duration from 1 s on; 1 h unless said", form=schemas.DURATION),
            _time("from", " to begin at; now, with what is overdue, unless said"),
        ),
        problems=("bad-request", "unknown-topic", *_READS),
    ),
    Operation(
        *("GET", _MESSAGE, messages.get_message, "A message and its life"),
        answers={200: (answers.FoundAnswer,)},
        problems=("bad-request", "unknown-message", *_READS),
    ),
    Operation(
        *("DELETE", _MESSAGE, messages.cancel, "Cancel a message that still waits"),
        answers={200: (answers.CancelAnswer,)},
        problems=("bad-request", "cross-origin", "unknown-message", "too-late", *_WRITES),
    ),
    Operation(
        *("PATCH", _MESSAGE, messages.reschedule, "Give a message that still waits another time"),
        answers={200: (answers.RescheduleAnswer,)},
        requests=(requests.Reschedule,),
        problems=(*_BODY, "unknown-message", "too-late", "cancelled", *_WRITES),
    ),
    Operation(
        *("POST", f"{_GROUP}/claim", claims.claim, "Claim messages for a lease"),
        answers={200: (answers.ClaimAnswer,)},
        requests=(requests.Claim,),
        problems=(*_BODY, "not-built", "unknown-topic", "unknown-group", *_WRITES),
    ),
    Operation(
        *("POST", f"{_CLAIM}/ack", claims.ack, "The messages are done"),
        answers={200: (answers.AckAnswer,)},
        requests=(requests.Ack,),
        body_required=False,
        problems=(*_BODY, "unknown-claim", "nothing-to-settle", "lease-lost", *_WRITES),
    ),
    Operation(
        *("POST", f"{_CLAIM}/fail", claims.fail, "The messages failed: onto the ladder, or dead"),
        answers={200: (answers.FailAnswer,)},
        requests=(requests.Fail,),
        body_required=False,
        problems=(*_BODY, "unknown-claim", "nothing-to-settle", "lease-lost", *_WRITES),
    ),
    Operation(
        *("POST", f"{_CLAIM}/extend", claims.extend, "The lease begins anew"),
        answers={200: (answers.ExtendAnswer,)},
        requests=(requests.Extend,),
        problems=(*_BODY, "unknown-claim", "nothing-to-settle", "lease-lost", *_WRITES),
    ),
    Operation(
        *("POST", "/v1/nudge", topics.nudge, "Look at once for what an outbox has committed"),
        answers={202: (answers.NudgeAnswer,)},
        requests=(requests.Nudge,),
        body_required=False,
        problems=(*_BODY, "unknown-topic", *_READS),
    ),
    Operation(
        *("GET", "/v1/clients", clients.list_clients, "The clients there are, and what they hold"),
        answers={200: (answers.ClientPage,)},
        query=_PAGE,
        problems=("bad-request", *_READS),
    ),
    Operation(
        *("POST", f"{_CLIENT}/renew", clients.renew, "The client lives, and is watched from now on"),
        answers={200: (answers.RenewAnswer,)},
        problems=("bad-request", "cross-origin", *_WRITES),
    ),
    Operation(
        *("DELETE", _CLIENT, clients.deregister, "The client goes, and its claims end at once"),
        answers={200: (answers.DeregisterAnswer,)},
        problems=("bad-request", "cross-origin", *_WRITES),
    ),
    Operation(
        *("GET", "/v1/topics", topics.list_topics, "Topics with their counts, page by page"),
        answers={200: (answers.TopicList,)},
        query=(Parameter("sort", "name, rate or backlog; name unless said", words=("name", "rate", "backlog")), *_PAGE),
        problems=("bad-request", *_READS),
    ),
    Operation(
        *("GET", _TOPIC, topics.get_topic, "One topic with its counts and groups"),
        answers={200: (answers.TopicDetail,)},
        problems=("bad-request", "unknown-topic", *_READS),
    ),
    Operation(
        *("PUT", _TOPIC, topics.put_topic, "Make a topic or change one"),
        answers={200: (answers.TopicAnswer,), 201: (answers.TopicAnswer,)},
        requests=(requests.PutTopic,),
        body_required=False,
        problems=(*_BODY, "not-built", "topic-conflict", *_WRITES),
    ),
    Operation(
        *("DELETE", _TOPIC, removing.remove_topic, "Remove a topic, its groups and all its messages"),
        answers={200: (answers.RemovedTopic,)},
        query=(
            Parameter(
                *("force", "true: also while messages wait or are unsettled; they are dropped; false unless said"),
                words=("true", "false"),
            ),
        ),
        problems=("bad-request", "cross-origin", "unknown-topic", "topic-conflict", *_WRITES),
    ),
    Operation(
        *("GET", f"{_TOPIC}/groups", topics.list_groups, "The groups of a topic"),
        answers={200: (answers.GroupList,)},
        problems=("bad-request", "unknown-topic", *_READS),
    ),
    Operation(
        *("GET", _GROUP, topics.get_group, "Where a group stands"),
        answers={200: (answers.GroupDetail,)},
        problems=("bad-request", "unknown-topic", "unknown-group", *_READS),
    ),
    Operation(
        *("PUT", _GROUP, topics.put_group, "Make a group or change one"),
        answers={200: (answers.GroupSummary,), 201: (answers.GroupSummary,)},
        requests=(requests.PutGroup,),
        body_required=False,
        problems=(*_BODY, "not-built", "unknown-topic", "unknown-group", *_WRITES),
    ),
    Operation(
        *("DELETE", _GROUP, removing.remove_group, "Remove a group; its claims are over"),
        answers={200: (answers.RemovedGroup,)},
        problems=("bad-request", "cross-origin", "unknown-topic", "unknown-group", *_WRITES),
    ),
    Operation(
        *("GET", f"{_GROUP}/dead", dead.list_dead, "The dead letters of a group"),
        answers={200: (answers.DeadPage,)},
        query=(
            Parameter("key", "of this key", form=_KEY),
            Parameter("reason", "a part of the last attempt's reason, upper and lower case alike"),
            _time("from", ": died then or later"),
            _time("to", ": died before"),
            *_PAGE,
        ),
        problems=("bad-request", "unknown-topic", "unknown-group", *_READS),
    ),
    Operation(
        *("POST", f"{_GROUP}/dead/redrive", dead.redrive, "Dead letters back to their group"),
        answers={200: (answers.RedriveAnswer,)},
        requests=(requests.Letters,),
        body_required=False,
        problems=(*_BODY, "unknown-topic", "unknown-group", *_WRITES),
    ),
    Operation(
        *("POST", f"{_GROUP}/dead/purge", dead.purge, "Dead letters away for good"),
        answers={200: (answers.PurgeAnswer,)},
        requests=(requests.Letters,),
        body_required=False,
        problems=(*_BODY, "unknown-topic", "unknown-group", *_WRITES),
    ),
    Operation(
        *("POST", f"{_GROUP}/seek", positions.seek, "Move a group to another position"),
        answers={200: (answers.SeekAnswer,)},
        requests=(requests.Seek,),
        problems=(*_BODY, "unknown-topic", "unknown-group", "unknown-queue", "topic-conflict", *_WRITES),
    ),
    Operation(
        *("POST", f"{_GROUP}/replay", positions.replay, "A range of the stream once more for one group"),
        answers={200: (answers.ReplayAnswer,)},
        requests=(requests.Replay,),
        problems=(*_BODY, "unknown-topic", "unknown-group", "unknown-queue", "topic-conflict", *_WRITES),
    ),
    Operation(
        *("GET", f"{_TOPIC}/queues/{{queue}}/messages", claims.pull, "Pull by your own offset; no claim, no ack"),
        answers={200: (answers.PullAnswer,)},
        query=(
            Parameter("offset", "the first one; 0 unless said", numbers=(0, (1 << 63) - 1)),
            Parameter("max", "how many at most, 1 to 1000; 10 unless said", numbers=(1, 1000)),
            Parameter("wait", "a duration, up to 30 s; 0 unless said", form=schemas.DURATION),
        ),
        problems=("bad-request", *_INCOMING, "unknown-topic", "unknown-queue", *_READS),
    ),
    Operation("GET", "/livez", health.live, "The process works", {200: (answers.Live,)}, problems=("bad-request",)),
    Operation(
        *("GET", "/readyz", health.ready, "The server can accept and deliver", {200: (answers.Ready,)}),
        query=(Parameter("verbose", "tell each check"),),
        problems=("bad-request", "not-ready"),
    ),
    Operation("GET", "/metrics", health.metrics, "For Prometheus", {200: "text/plain"}),
    Operation("GET", "/", health.welcome, "Where to look", {200: (answers.Welcome,)}),
    Operation(
        *("GET", "/problems/{kind}", health.kind_of_problem, "What a problem means", {200: (answers.KindOfProblem,)}),
        problems=("not-found",),
    ),
)
