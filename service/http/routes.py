"""The table of all calls: `Router` finds by it, and /openapi.json is made from it, so that neither knows more.

What a call is about is the first line of its handler's docstring.
"""

from functools import cached_property

from attrs import frozen

from ...store.states import FINDABLE
from . import (
    activity,
    answers,
    claims,
    clients,
    dead,
    finding,
    groups,
    guards,
    health,
    messages,
    nodes,
    positions,
    publishing,
    pushes,
    reports,
    requests,
    schedules,
    schemas,
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
    need: Need
    """What a key must reach to ask for it."""
    requests: tuple[type, ...] = ()
    """One of these structs is the body."""
    problems: tuple[str, ...] = ()
    """Kinds of problems that it may answer, beside `internal`."""
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    body_required: bool = True
    statuses: tuple[int, ...] = (200,)
    """Of its answers."""
    lines: tuple[type, tuple[type, ...]] | None = None
    """It takes lines of the one, too (application/x-ndjson), and answers each with one of the others."""

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names of what the query may have."""
        return frozenset(parameter.name for parameter in self.query)

    @property
    def name(self) -> str:
        """What the document and the log call it."""
        return getattr(self.handler, "__name__", "")

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
    def is_checked(self) -> bool:
        """It says no to names and parameters that it does not know."""
        return "bad-request" in self.problems

    @cached_property
    def may_answer_much(self) -> bool:
        """Its answer may be thousands of times as long as what asks for it."""
        return self.need.of is not Of.NOTHING and (self.method == "GET" or answers.ClaimAnswer in self.answers)

    @cached_property
    def takes_body(self) -> bool:
        """It reads one, or lets one be as HTTP does: of a GET or a DELETE a body has no meaning."""
        return self.method != "POST" or bool(self.requests)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """All kinds of problems that it may answer."""
        access = () if self.need.of is Of.NOTHING else ("unauthorized", "forbidden", *_READS)
        much = ("overloaded",) if self.may_answer_much else ()
        return tuple(dict.fromkeys((*self.problems, *access, *much)))


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

_WRITES = ("busy", "overloaded", "stopping", "store-unavailable", "outcome-unknown")
_READS = ("stopping", "store-unavailable")
_INCOMING = ("too-large", "too-slow", "overloaded")
_BODY = ("bad-request", "unsupported-media-type", "cross-origin", *_INCOMING)
_NO_BODY = ("bad-request", "cross-origin")
_REFUSED_BODY = (*_NO_BODY, "too-slow", "overloaded")
"""Of a POST, which reads that it is none."""
_NO_TOPIC = ("bad-request", "unknown-topic", *_READS)
_NO_GROUP = ("bad-request", "unknown-topic", "unknown-group", *_READS)
_CONDITION = ("precondition-failed",)
_SETTLES = (*_BODY, "unknown-claim", "nothing-to-settle", "lease-lost", *_WRITES)
_OPERATES = (*_BODY, "unknown-topic", "unknown-group", *_WRITES)
_MOVES = (*_BODY, "unknown-topic", "unknown-group", "unknown-queue", "topic-conflict", *_WRITES)

_NO_SCHEDULE = ("unknown-schedule",)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST",
        f"{_TOPIC}/messages",
        publishing.publish,
        (answers.ReceiptAnswer, answers.BatchAnswer),
        PUBLISH,
        requests=(requests.Message, requests.Batch),
        headers=(_IDEMPOTENCY,),
        problems=(*_BODY, "unknown-topic", "idempotency-conflict", "too-many", *_WRITES),
        statuses=(201,),
        lines=(requests.Message, (answers.ReceiptAnswer, answers.LineFault)),
    ),
    Operation(
        "GET", "/v1/messages", finding.find_messages, answers.FoundPage, READ_QUERY, query=_FOUND, problems=_NO_TOPIC
    ),
    Operation(
        "GET", f"{_TOPIC}/upcoming", finding.upcoming, answers.UpcomingAnswer, READ, query=_UPCOMING, problems=_NO_TOPIC
    ),
    Operation(
        *("GET", "/v1/upcoming", finding.upcoming_of_all, answers.UpcomingAnswer, READ_ALL),
        query=_UPCOMING,
        problems=("bad-request", *_READS),
    ),
    Operation(
        *("GET", _MESSAGE, messages.get_message, answers.FoundAnswer, READ_LATER),
        problems=("bad-request", "unknown-message", *_READS),
    ),
    Operation(
        *("DELETE", _MESSAGE, messages.cancel, answers.CancelAnswer, PUBLISH_LATER),
        problems=(*_NO_BODY, "unknown-message", "too-late", *_WRITES),
    ),
    Operation(
        *("PATCH", _MESSAGE, messages.reschedule, answers.RescheduleAnswer, PUBLISH_LATER, (requests.Reschedule,)),
        problems=(*_BODY, "unknown-message", "too-late", "cancelled", *_WRITES),
    ),
    Operation(
        *("POST", f"{_MESSAGE}/erase", messages.erase, answers.ErasureAnswer, OPERATE_LATER),
        problems=(*_REFUSED_BODY, "unknown-message", "still-waits", *_WRITES),
        statuses=(200, 202),
    ),
    Operation(
        *("PUT", _TIMER, timers.put_timer, answers.TimerAnswer, PUBLISH, (requests.PutTimer,)),
        headers=(_IDEMPOTENCY, _IF_MATCH, _IF_NONE_MATCH),
        problems=(
            *(*_BODY, "unknown-topic", *_CONDITION, "too-late", "cancelled", "idempotency-conflict", "too-many"),
            *_WRITES,
        ),
        statuses=(200, 201),
    ),
    Operation(
        *("GET", f"{_TOPIC}/timers", timers.list_timers, answers.TimerPage, READ), query=_PAGE, problems=_NO_TOPIC
    ),
    Operation(*("GET", _TIMER, timers.get_timer, answers.TimerAnswer, READ), problems=(*_NO_TOPIC, "unknown-timer")),
    Operation(
        *("DELETE", _TIMER, timers.cancel_timer, answers.CancelAnswer, PUBLISH),
        headers=(_IF_MATCH,),
        problems=(*_NO_BODY, "unknown-topic", "unknown-timer", *_CONDITION, "too-late", *_WRITES),
    ),
    Operation(
        *("DELETE", f"{_TOPIC}/messages", messages.cancel_labelled, answers.LabelledAnswer, PUBLISH),
        query=(Parameter("key", "of these messages", required=True, form=_KEY),),
        problems=(*_NO_BODY, "unknown-topic", *_WRITES),
    ),
    Operation(
        *("PUT", _SCHEDULE, schedules.put_schedule, answers.ScheduleAnswer, OPERATE_LATER, (requests.PutSchedule,)),
        query=(Parameter("dry_run", "true: tell what it would be; false unless said", words=("true", "false")),),
        headers=(_IF_MATCH, _IF_NONE_MATCH),
        problems=(*_BODY, "unknown-topic", *_CONDITION, *_WRITES),
        statuses=(200, 201),
    ),
    Operation(
        *("GET", "/v1/schedules", schedules.list_schedules, answers.ScheduleList, READ_ALL),
        query=_PAGE,
        problems=("bad-request", *_READS),
    ),
    Operation(
        *("GET", _SCHEDULE, schedules.get_schedule, answers.ScheduleAnswer, READ_LATER),
        problems=("bad-request", *_NO_SCHEDULE, *_READS),
    ),
    Operation(
        *("DELETE", _SCHEDULE, schedules.remove_schedule, answers.RemovedSchedule, OPERATE_LATER),
        headers=(_IF_MATCH,),
        problems=(*_NO_BODY, *_NO_SCHEDULE, *_CONDITION, *_WRITES),
    ),
    Operation(
        *("POST", f"{_SCHEDULE}/pause", schedules.pause_schedule, answers.ScheduleAnswer, OPERATE_LATER),
        problems=(*_REFUSED_BODY, *_NO_SCHEDULE, *_WRITES),
    ),
    Operation(
        *("POST", f"{_SCHEDULE}/resume", schedules.resume_schedule, answers.ScheduleAnswer, OPERATE_LATER),
        problems=(*_REFUSED_BODY, *_NO_SCHEDULE, *_WRITES),
    ),
    Operation(
        *("POST", f"{_SCHEDULE}/run", schedules.run_schedule, answers.RunAnswer, OPERATE_LATER),
        problems=(*_REFUSED_BODY, *_NO_SCHEDULE, *_WRITES),
        statuses=(201,),
    ),
    Operation(
        *("POST", f"{_SCHEDULE}/backfill", schedules.backfill_schedule, answers.BackfillAnswer, OPERATE_LATER),
        requests=(requests.Backfill,),
        problems=(*_BODY, *_NO_SCHEDULE, *_WRITES),
    ),
    Operation(
        *("GET", f"{_SCHEDULE}/next", schedules.next_of_schedule, answers.NextAnswer, READ_LATER),
        query=(Parameter("count", "how many, 1 to 100; 5 unless said", numbers=(1, 100)),),
        problems=("bad-request", *_NO_SCHEDULE, *_READS),
    ),
    Operation(
        *("GET", f"{_SCHEDULE}/fires", schedules.fires_of_schedule, answers.FirePage, READ_LATER),
        query=_PAGE,
        problems=("bad-request", *_NO_SCHEDULE, *_READS),
    ),
    Operation(
        *("POST", f"{_GROUP}/claim", claims.claim, answers.ClaimAnswer, CONSUME, (requests.Claim,)),
        problems=(*_BODY, "not-built", "unknown-topic", "unknown-group", *_WRITES),
    ),
    Operation(
        "POST",
        f"{_CLAIM}/ack",
        claims.ack,
        answers.AckAnswer,
        CONSUME_LATER,
        (requests.Ack,),
        _SETTLES,
        body_required=False,
    ),
    Operation(
        *("POST", "/v1/claims/settle", settling.settle, answers.SettleAnswer, CONSUME_LATER, (requests.Settle,)),
        problems=(*_BODY, *_READS),
    ),
    Operation(
        "POST",
        f"{_CLAIM}/fail",
        claims.fail,
        answers.FailAnswer,
        CONSUME_LATER,
        (requests.Fail,),
        _SETTLES,
        body_required=False,
    ),
    Operation(
        "POST", f"{_CLAIM}/extend", claims.extend, answers.ExtendAnswer, CONSUME_LATER, (requests.Extend,), _SETTLES
    ),
    Operation(
        *("POST", "/v1/nudge", topics.nudge, answers.NudgeAnswer, PUBLISH_LATER, (requests.Nudge,)),
        problems=(*_BODY, "unknown-topic", *_READS),
        body_required=False,
        statuses=(202,),
    ),
    Operation(
        "GET",
        "/v1/clients",
        clients.list_clients,
        answers.ClientPage,
        READ_ALL,
        query=_PAGE,
        problems=("bad-request", *_READS),
    ),
    Operation(
        "POST",
        f"{_CLIENT}/renew",
        clients.renew,
        answers.RenewAnswer,
        CONSUME_LATER,
        (requests.Renew,),
        problems=(*_BODY, *_WRITES),
        body_required=False,
    ),
    Operation(
        "DELETE", _CLIENT, clients.deregister, answers.DeregisterAnswer, CONSUME_LATER, problems=(*_NO_BODY, *_WRITES)
    ),
    Operation(
        "GET",
        "/v1/activity",
        activity.tell_activity,
        answers.ActivityAnswer,
        READ_ALL,
        problems=("bad-request", *_READS),
    ),
    Operation(
        "GET", "/v1/wheel", activity.tell_wheel, answers.WheelAnswer, READ_ALL, problems=("bad-request", *_READS)
    ),
    Operation(
        *("POST", "/v1/session", sessions.sign_in, answers.SessionAnswer, NOTHING, (requests.SignIn,)),
        problems=(*_BODY, "unauthorized", *_READS),
        statuses=(201,),
    ),
    Operation(
        *("GET", "/v1/session", sessions.who, answers.SessionAnswer, NOTHING),
        problems=("bad-request", "unauthorized", *_READS),
    ),
    Operation(
        *("DELETE", "/v1/session", sessions.sign_out, answers.SignedOut, NOTHING), problems=(*_NO_BODY, *_WRITES)
    ),
    Operation(
        "GET", "/v1/reports", reports.list_reports, answers.ReportList, READ_ALL, problems=("bad-request", *_READS)
    ),
    Operation(
        *("GET", "/v1/reports/{report}", reports.get_report, "text/html", READ_ALL),
        problems=("bad-request", "unknown-report", *_READS),
    ),
    Operation(
        *("GET", "/v1/reports/{report}/figures/{figure}", reports.get_figure, "application/octet-stream", READ_ALL),
        problems=("bad-request", "unknown-report", *_READS),
    ),
    Operation("GET", "/v1/guards", guards.list_guards, answers.GuardList, READ_ALL, problems=("bad-request", *_READS)),
    Operation("GET", "/v1/nodes", nodes.list_nodes, answers.NodeList, READ_ALL, problems=("bad-request", *_READS)),
    Operation(
        *("GET", "/v1/topics", topics.list_topics, answers.TopicList, READ_ALL),
        query=(_SORT, *_PAGE),
        problems=("bad-request", *_READS),
    ),
    Operation(
        *("GET", "/v1/groups", groups.list_all_groups, answers.GroupPage, READ_ALL),
        query=(_SORT_GROUPS, Parameter("topic", "of this topic only", form=schemas.NAME), *_PAGE),
        problems=_NO_TOPIC,
    ),
    Operation("GET", _TOPIC, topics.get_topic, answers.TopicDetail, KNOW, problems=_NO_TOPIC),
    Operation(
        *("PUT", _TOPIC, topics.put_topic, answers.TopicSettings, OPERATE, (requests.PutTopic,)),
        problems=(*_BODY, "not-built", "topic-conflict", *_WRITES),
        body_required=False,
        statuses=(200, 201),
    ),
    Operation(
        *("DELETE", _TOPIC, topics.remove_topic, answers.RemovedTopic, OPERATE),
        query=(_FORCE,),
        problems=(*_NO_BODY, "unknown-topic", "topic-conflict", *_WRITES),
    ),
    Operation("GET", f"{_TOPIC}/groups", topics.list_groups, answers.GroupList, READ, problems=_NO_TOPIC),
    Operation("GET", _GROUP, topics.get_group, answers.GroupDetail, KNOW, problems=_NO_GROUP),
    Operation(
        *("PUT", _GROUP, topics.put_group, answers.GroupSettings, OPERATE, (requests.PutGroup,)),
        problems=(*_BODY, "not-built", "unknown-topic", "unknown-group", *_WRITES),
        body_required=False,
        statuses=(200, 201),
    ),
    Operation(
        *("DELETE", _GROUP, topics.remove_group, answers.RemovedGroup, OPERATE),
        problems=(*_NO_BODY, "unknown-topic", "unknown-group", *_WRITES),
    ),
    Operation(
        *("POST", f"{_GROUP}/pause", topics.pause, answers.GroupSummary, OPERATE),
        problems=(*_REFUSED_BODY, "unknown-topic", "unknown-group", "topic-conflict", *_WRITES),
    ),
    Operation(
        *("POST", f"{_GROUP}/resume", topics.resume, answers.GroupSummary, OPERATE),
        problems=(*_REFUSED_BODY, "unknown-topic", "unknown-group", "topic-conflict", *_WRITES),
    ),
    Operation(
        *("PUT", f"{_GROUP}/push", pushes.put_push, answers.PushAnswer, OPERATE, (requests.PutPush,)),
        problems=(*_BODY, "unknown-topic", "unknown-group", "topic-conflict", *_WRITES),
        statuses=(200, 201),
    ),
    Operation(
        *("GET", f"{_GROUP}/push", pushes.get_push, answers.PushAnswer, OPERATE),
        problems=(*_NO_GROUP, "unknown-push"),
    ),
    Operation(
        *("DELETE", f"{_GROUP}/push", pushes.remove_push, answers.RemovedPush, OPERATE),
        problems=(*_NO_BODY, "unknown-topic", "unknown-group", "unknown-push", *_WRITES),
    ),
    Operation("GET", f"{_GROUP}/dead", dead.list_dead, answers.DeadPage, READ, query=_DEAD, problems=_NO_GROUP),
    Operation(
        *(
            "POST",
            f"{_GROUP}/dead/redrive",
            dead.redrive,
            answers.RedriveAnswer,
            OPERATE,
            (requests.Letters,),
            _OPERATES,
        ),
        body_required=False,
    ),
    Operation(
        *("POST", f"{_GROUP}/dead/purge", dead.purge, answers.PurgeAnswer, OPERATE, (requests.Letters,), _OPERATES),
        body_required=False,
    ),
    Operation("POST", f"{_GROUP}/seek", positions.seek, answers.SeekAnswer, OPERATE, (requests.Seek,), _MOVES),
    Operation("POST", f"{_GROUP}/replay", positions.replay, answers.ReplayAnswer, OPERATE, (requests.Replay,), _MOVES),
    Operation(
        *("GET", f"{_TOPIC}/queues/{{queue}}/messages", claims.pull, answers.PullAnswer, READ),
        query=_PULL,
        problems=("bad-request", *_INCOMING, "unknown-topic", "unknown-queue", *_READS),
    ),
    Operation("GET", "/livez", health.live, answers.Live, NOTHING, problems=("bad-request",)),
    Operation(
        *("GET", "/readyz", health.ready, answers.Ready, NOTHING),
        query=(Parameter("verbose", "tell each check"),),
        problems=("bad-request", "not-ready"),
    ),
    Operation("GET", "/metrics", health.metrics, "text/plain", READ_ALL),
    Operation("GET", "/", health.welcome, answers.Welcome, NOTHING),
    Operation(
        "GET", "/problems/{kind}", health.kind_of_problem, answers.KindOfProblem, NOTHING, problems=("not-found",)
    ),
)
