"""The table of all calls; `Router` is filled and /openapi.json is made from it, so that they never differ.

The first line of a handler's docstring is the summary of its call.
"""

from functools import cached_property
from re import findall

from attrs import Factory, field, frozen

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
    pushes,
    reports,
    requests,
    schedules,
    schemas,
    servers,
    sessions,
    settling,
    timers,
    topics,
)
from .access import (
    CONSUME,
    CONSUME_LATER,
    KNOW,
    NOTHING,
    OPERATE,
    OPERATE_LATER,
    PUBLISH,
    PUBLISH_LATER,
    READ,
    READ_ALL,
    READ_LATER,
    READ_QUERY,
    Need,
    Of,
)
from .call import Handler

_READS = ("stopping", "store-unavailable")
_WRITES = ("busy", "overloaded", *_READS, "outcome-unknown")
_UNKNOWN = {
    "topic": "unknown-topic",
    "group": "unknown-group",
    "queue": "unknown-queue",
    "name": "unknown-schedule",
    "key": "unknown-timer",
    "id": "unknown-message",
    "claim": "unknown-claim",
    "report": "unknown-report",
    "kind": "not-found",
}
"""The problem if an object does not exist, by the part of the path that names it."""


@frozen
class Parameter:
    name: str
    about: str
    required: bool = False
    numbers: tuple[int, int] | None = None
    """The bounds of a whole number."""
    words: tuple[str, ...] = ()
    """The allowed values."""
    form: schemas.Json | None = None
    """The JSON Schema of a text."""


def _statuses(operation: "Operation") -> tuple[int, ...]:
    """A PUT may also make what it sets."""
    return (200, 201) if operation.call.startswith("PUT") else (200,)


@frozen(slots=False)
class Operation:
    call: str
    """Its method and its path."""
    handler: Handler
    answer: type | tuple[type, ...] | str
    """The struct of the answer, or the several possible ones; or the media type of an answer that is no struct."""
    need: Need
    """The scope that a key must have."""
    requests: tuple[type, ...] = ()
    """The possible structs of the body."""
    problems: tuple[str, ...] = ()
    """Kinds of problems that it may answer, beside those that follow from its method, path and need: see `kinds`."""
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    body_required: bool = True
    statuses: tuple[int, ...] = field(default=Factory(_statuses, takes_self=True))
    """The possible statuses of success."""
    lines: tuple[type, tuple[type, ...]] | None = None
    """If set, it also takes lines (application/x-ndjson) of the first struct, and answers each with one of the
    others."""
    tells_outcome: bool = False
    """For an operation other than GET: as a whole it never answers `busy` or `outcome-unknown`."""
    is_checked: bool = True
    """Whether it refuses malformed names and unknown parameters."""

    @cached_property
    def method(self) -> str:
        return self.call.partition(" ")[0]

    @cached_property
    def path(self) -> str:
        return self.call.partition(" ")[2]

    @cached_property
    def parameters(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self.query)

    @property
    def name(self) -> str:
        """The operation's name in /openapi.json and in the log."""
        return getattr(self.handler, "__name__", "")

    @property
    def about(self) -> str:
        return (self.handler.__doc__ or "").partition("\n")[0].removesuffix(".")

    @property
    def answers(self) -> tuple[type, ...]:
        """The possible structs of the answer."""
        if isinstance(self.answer, str):
            return ()
        return self.answer if isinstance(self.answer, tuple) else (self.answer,)

    @cached_property
    def may_answer_much(self) -> bool:
        """Whether its answer may be thousands of times as long as the request."""
        return self.need.of is not Of.NOTHING and (self.method == "GET" or answers.ClaimAnswer in self.answers)

    @cached_property
    def takes_body(self) -> bool:
        """Whether it reads a body, or ignores one as HTTP does: for GET and DELETE a body has no meaning."""
        return self.method != "POST" or bool(self.requests)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """All kinds of problems that it may answer, beside `internal`."""
        kinds = ["bad-request"] if self.is_checked else []
        if self.method != "GET":
            kinds += ["cross-origin"] if self.tells_outcome else ["cross-origin", *_WRITES]
        if self.requests:
            kinds += ["unsupported-media-type", "too-large", "too-slow", "overloaded"]
        elif self.method == "POST":  # it reads the request to make sure that there is no body
            kinds += ["too-slow", "overloaded"]
        parts = findall("{(.+?)}", self.path)
        if self.method == "PUT" and self.path.endswith("}"):
            parts.pop()  # a PUT may create it
        kinds += [_UNKNOWN[part] for part in parts if part in _UNKNOWN]
        if _IF_MATCH in self.headers:
            kinds.append("precondition-failed")
        if self.need.of is not Of.NOTHING:
            kinds += ["unauthorized", "forbidden", *_READS]
        if self.may_answer_much:
            kinds.append("overloaded")
        return tuple(dict.fromkeys((*kinds, *self.problems)))


_TOPIC = "/v1/topics/{topic}"
_GROUP = "/v1/topics/{topic}/groups/{group}"
_TIMER = "/v1/topics/{topic}/timers/{key}"
_SCHEDULE = "/v1/schedules/{name}"
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
_IF_MATCH = Parameter("If-Match", "the revision that it must be at, as ETag has it", form={"type": "string"})
_IF_NONE_MATCH = Parameter("If-None-Match", "*: only when none waits", form={"type": "string"})
_MAX = Parameter("max", "how many at most, 1 to 1000; 10 unless said", numbers=(1, 1000))
_SORT = Parameter("sort", "name, rate or backlog; name unless said", words=("name", "rate", "backlog"))
_SORT_GROUPS = Parameter(
    "sort", "name, backlog or dead_letters; name unless said", words=("name", "backlog", "dead_letters")
)
_FORCE = Parameter(
    "force",
    "true: also while messages wait or are unsettled; they are dropped; false unless said",
    words=("true", "false"),
)
_FOUND = (
    Parameter("topic", "a topic", required=True, form=schemas.NAME),
    Parameter("key", "of this key", form=_KEY),
    Parameter(
        "state",
        "what it is; from claimed on in a group; without it and a key all that wait and the stream",
        words=FINDABLE,
    ),
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

_SETTLES = ("nothing-to-settle", "lease-lost")
_MOVES = ("unknown-queue", "topic-conflict")

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        f"POST {_TOPIC}/messages",
        publishing.publish,
        (answers.ReceiptAnswer, answers.BatchAnswer),
        PUBLISH,
        (requests.Message, requests.Batch),
        headers=(_IDEMPOTENCY,),
        problems=("idempotency-conflict", "too-many"),
        statuses=(201,),
        lines=(requests.Message, (answers.ReceiptAnswer, answers.LineFault)),
    ),
    Operation(
        "GET /v1/messages",
        finding.find_messages,
        answers.FoundPage,
        READ_QUERY,
        query=_FOUND,
        problems=("unknown-topic",),
    ),
    Operation(f"GET {_TOPIC}/upcoming", finding.upcoming, answers.UpcomingAnswer, READ, query=_UPCOMING),
    Operation("GET /v1/upcoming", finding.upcoming_of_all, answers.UpcomingAnswer, READ_ALL, query=_UPCOMING),
    Operation(f"GET {_MESSAGE}", messages.get_message, answers.FoundAnswer, READ_LATER),
    Operation(f"DELETE {_MESSAGE}", messages.cancel, answers.CancelAnswer, PUBLISH_LATER, problems=("too-late",)),
    Operation(
        f"PATCH {_MESSAGE}",
        messages.reschedule,
        answers.RescheduleAnswer,
        PUBLISH_LATER,
        (requests.Reschedule,),
        problems=("too-late", "cancelled"),
    ),
    Operation(
        f"POST {_MESSAGE}/erase",
        messages.erase,
        answers.ErasureAnswer,
        OPERATE_LATER,
        problems=("still-waits",),
        statuses=(200, 202),
    ),
    Operation(
        f"PUT {_TIMER}",
        timers.put_timer,
        answers.TimerAnswer,
        PUBLISH,
        (requests.PutTimer,),
        headers=(_IDEMPOTENCY, _IF_MATCH, _IF_NONE_MATCH),
        problems=("too-late", "cancelled", "idempotency-conflict", "too-many"),
    ),
    Operation(f"GET {_TOPIC}/timers", timers.list_timers, answers.TimerPage, READ, query=_PAGE),
    Operation(f"GET {_TIMER}", timers.get_timer, answers.TimerAnswer, READ),
    Operation(
        f"DELETE {_TIMER}",
        timers.cancel_timer,
        answers.CancelAnswer,
        PUBLISH,
        headers=(_IF_MATCH,),
        problems=("too-late",),
    ),
    Operation(
        f"DELETE {_TOPIC}/messages",
        messages.cancel_labelled,
        answers.LabelledAnswer,
        PUBLISH,
        query=(Parameter("key", "of these messages", required=True, form=_KEY),),
    ),
    Operation(
        f"PUT {_SCHEDULE}",
        schedules.put_schedule,
        answers.ScheduleAnswer,
        OPERATE_LATER,
        (requests.PutSchedule,),
        query=(Parameter("dry_run", "true: tell what it would be; false unless said", words=("true", "false")),),
        headers=(_IF_MATCH, _IF_NONE_MATCH),
        problems=("unknown-topic",),
    ),
    Operation("GET /v1/schedules", schedules.list_schedules, answers.ScheduleList, READ_ALL, query=_PAGE),
    Operation(f"GET {_SCHEDULE}", schedules.get_schedule, answers.ScheduleAnswer, READ_LATER),
    Operation(
        f"DELETE {_SCHEDULE}", schedules.remove_schedule, answers.RemovedSchedule, OPERATE_LATER, headers=(_IF_MATCH,)
    ),
    Operation(f"POST {_SCHEDULE}/pause", schedules.pause_schedule, answers.ScheduleAnswer, OPERATE_LATER),
    Operation(f"POST {_SCHEDULE}/resume", schedules.resume_schedule, answers.ScheduleAnswer, OPERATE_LATER),
    Operation(f"POST {_SCHEDULE}/run", schedules.run_schedule, answers.RunAnswer, OPERATE_LATER, statuses=(201,)),
    Operation(
        f"POST {_SCHEDULE}/backfill",
        schedules.backfill_schedule,
        answers.BackfillAnswer,
        OPERATE_LATER,
        (requests.Backfill,),
    ),
    Operation(
        f"GET {_SCHEDULE}/next",
        schedules.next_of_schedule,
        answers.NextAnswer,
        READ_LATER,
        query=(Parameter("count", "how many, 1 to 100; 5 unless said", numbers=(1, 100)),),
    ),
    Operation(f"GET {_SCHEDULE}/fires", schedules.fires_of_schedule, answers.FirePage, READ_LATER, query=_PAGE),
    Operation(
        f"POST {_GROUP}/claim", claims.claim, answers.ClaimAnswer, CONSUME, (requests.Claim,), problems=("not-built",)
    ),
    Operation(
        f"POST {_CLAIM}/ack",
        claims.ack,
        answers.AckAnswer,
        CONSUME_LATER,
        (requests.Ack,),
        _SETTLES,
        body_required=False,
    ),
    Operation(
        "POST /v1/claims/settle",
        settling.settle,
        answers.SettleAnswer,
        CONSUME_LATER,
        (requests.Settle,),
        tells_outcome=True,
    ),
    Operation(
        f"POST {_CLAIM}/fail",
        claims.fail,
        answers.FailAnswer,
        CONSUME_LATER,
        (requests.Fail,),
        _SETTLES,
        body_required=False,
    ),
    Operation(
        f"POST {_CLAIM}/extend", claims.extend, answers.ExtendAnswer, CONSUME_LATER, (requests.Extend,), _SETTLES
    ),
    Operation(
        "POST /v1/nudge",
        topics.nudge,
        answers.NudgeAnswer,
        PUBLISH_LATER,
        (requests.Nudge,),
        problems=("unknown-topic",),
        tells_outcome=True,
        body_required=False,
        statuses=(202,),
    ),
    Operation("GET /v1/clients", clients.list_clients, answers.ClientPage, READ_ALL, query=_PAGE),
    Operation(
        f"POST {_CLIENT}/renew",
        clients.renew,
        answers.RenewAnswer,
        CONSUME_LATER,
        (requests.Renew,),
        body_required=False,
    ),
    Operation(f"DELETE {_CLIENT}", clients.deregister, answers.DeregisterAnswer, CONSUME_LATER),
    Operation("GET /v1/activity", servers.tell_activity, answers.ActivityAnswer, READ_ALL),
    Operation("GET /v1/wheel", servers.tell_wheel, answers.WheelAnswer, READ_ALL),
    Operation(
        "POST /v1/session",
        sessions.sign_in,
        answers.SessionAnswer,
        NOTHING,
        (requests.SignIn,),
        problems=("unauthorized", *_READS),
        tells_outcome=True,
        statuses=(201,),
    ),
    Operation("GET /v1/session", sessions.who, answers.SessionAnswer, NOTHING, problems=("unauthorized", *_READS)),
    Operation("DELETE /v1/session", sessions.sign_out, answers.SignedOut, NOTHING, problems=_READS),
    Operation("GET /v1/reports", reports.list_reports, answers.ReportList, READ_ALL),
    Operation("GET /v1/reports/{report}", reports.get_report, "text/html", READ_ALL),
    Operation("GET /v1/reports/{report}/figures/{figure}", reports.get_figure, "application/octet-stream", READ_ALL),
    Operation("GET /v1/guards", servers.list_guards, answers.GuardList, READ_ALL),
    Operation("GET /v1/nodes", servers.list_nodes, answers.NodeList, READ_ALL),
    Operation("GET /v1/topics", topics.list_topics, answers.TopicList, READ_ALL, query=(_SORT, *_PAGE)),
    Operation(
        "GET /v1/groups",
        topics.list_all_groups,
        answers.GroupPage,
        READ_ALL,
        query=(_SORT_GROUPS, Parameter("topic", "of this topic only", form=schemas.NAME), *_PAGE),
        problems=("unknown-topic",),
    ),
    Operation(f"GET {_TOPIC}", topics.get_topic, answers.TopicDetail, KNOW),
    Operation(
        f"PUT {_TOPIC}",
        topics.put_topic,
        answers.TopicSettings,
        OPERATE,
        (requests.PutTopic,),
        problems=("not-built", "topic-conflict"),
        body_required=False,
    ),
    Operation(
        f"DELETE {_TOPIC}",
        topics.remove_topic,
        answers.RemovedTopic,
        OPERATE,
        query=(_FORCE,),
        problems=("topic-conflict",),
    ),
    Operation(f"GET {_TOPIC}/groups", topics.list_groups, answers.GroupList, READ),
    Operation(f"GET {_GROUP}", topics.get_group, answers.GroupDetail, KNOW),
    Operation(
        f"PUT {_GROUP}",
        topics.put_group,
        answers.GroupSettings,
        OPERATE,
        (requests.PutGroup,),
        problems=("not-built", "unknown-group"),
        body_required=False,
    ),
    Operation(f"DELETE {_GROUP}", topics.remove_group, answers.RemovedGroup, OPERATE),
    Operation(f"POST {_GROUP}/pause", topics.pause, answers.GroupSummary, OPERATE, problems=("topic-conflict",)),
    Operation(f"POST {_GROUP}/resume", topics.resume, answers.GroupSummary, OPERATE, problems=("topic-conflict",)),
    Operation(
        f"PUT {_GROUP}/push",
        pushes.put_push,
        answers.PushAnswer,
        OPERATE,
        (requests.PutPush,),
        problems=("topic-conflict",),
    ),
    Operation(f"GET {_GROUP}/push", pushes.get_push, answers.PushAnswer, OPERATE, problems=("unknown-push",)),
    Operation(f"DELETE {_GROUP}/push", pushes.remove_push, answers.RemovedPush, OPERATE, problems=("unknown-push",)),
    Operation(f"GET {_GROUP}/dead", dead.list_dead, answers.DeadPage, READ, query=_DEAD),
    Operation(
        f"POST {_GROUP}/dead/redrive",
        dead.redrive,
        answers.RedriveAnswer,
        OPERATE,
        (requests.Letters,),
        body_required=False,
    ),
    Operation(
        f"POST {_GROUP}/dead/purge", dead.purge, answers.PurgeAnswer, OPERATE, (requests.Letters,), body_required=False
    ),
    Operation(f"POST {_GROUP}/seek", positions.seek, answers.SeekAnswer, OPERATE, (requests.Seek,), _MOVES),
    Operation(f"POST {_GROUP}/replay", positions.replay, answers.ReplayAnswer, OPERATE, (requests.Replay,), _MOVES),
    Operation(
        f"GET {_TOPIC}/queues/{{queue}}/messages",
        claims.pull,
        answers.PullAnswer,
        READ,
        query=_PULL,
        problems=("too-large", "too-slow"),
    ),
    Operation("GET /livez", health.live, answers.Live, NOTHING),
    Operation(
        "GET /readyz",
        health.ready,
        answers.Ready,
        NOTHING,
        query=(Parameter("verbose", "tell each check"),),
        problems=("not-ready",),
    ),
    Operation("GET /metrics", health.metrics, "text/plain", READ_ALL, is_checked=False),
    Operation("GET /", health.welcome, answers.Welcome, NOTHING, is_checked=False),
    Operation("GET /problems/{kind}", health.kind_of_problem, answers.KindOfProblem, NOTHING, is_checked=False),
)
