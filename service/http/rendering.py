"""Turns the store's records into answers."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ...store.content import ATTRIBUTES, BYTES, LABELS, any_of, as_json, headers_of
from ...store.erased import erased_at_of
from ...store.groups.push import PushRow
from ...store.history import since_redrive
from ...store.looking import group_counts as counting
from ...store.operating.erasing import Erasure
from ...store.records import DeadLetter, Delivered, Found, Group, GroupState, Receipt, Topic, TopicState
from ...wheel.ladder import Ladder
from ..durations import format_time
from ..engine.consume.clients import ClientState
from ..engine.publish.shaping import Shaping
from ..engine.state.rates import Activity
from ..settings import Settings
from . import answers

_SOON = ("key", "ordering_key", "tag", "headers", "content_type")
_has_more = any_of(*(name for name in ATTRIBUTES if name not in _SOON))


def client(one: ClientState) -> answers.ClientAnswer:
    holds = [answers.HeldAnswer.of(held, topic=held.group.topic.name, group=held.group.name) for held in one.holds]
    return answers.ClientAnswer.of(one, client=one.name, holds=holds)


def push(group: Group, one: PushRow) -> answers.PushAnswer:
    """The endpoint of a group, without its secrets."""
    since = one.broken_at if one.off_at is None else one.off_at
    return answers.PushAnswer.of(
        one,
        topic=group.topic.name,
        group=group.name,
        secrets=len(one.secrets.split()),
        state="off" if one.off_at is not None else "on" if since is None else "broken",
        since=None if since is None else format_time(since),
    )


def receipt(topic: Topic, one: Receipt, shaping: Shaping) -> answers.ReceiptAnswer:
    load, late_by = (UNSET, UNSET) if one.offset is not None or one.replayed else outlook(shaping, one.due)
    return answers.ReceiptAnswer(
        id=str(one.id),
        topic=topic.name,
        state=one.state,
        deliver_at=format_time(one.deliver_at),
        queue=UNSET if one.queue is None else one.queue,
        offset=UNSET if one.offset is None else one.offset,
        replayed=one.replayed,
        load=load,
        late_by=late_by,
    )


def outlook(shaping: Shaping, due: int) -> tuple[int | UnsetType, int | UnsetType]:
    """How many messages fall due in the second of `due`, and by how many milliseconds they will be late."""
    load = shaping.load(due)
    if load is None:
        return UNSET, UNSET
    late_by = shaping.late_by(due)
    return load, UNSET if late_by is None else late_by


def message(topic: Topic, one: Delivered) -> answers.MessageAnswer:
    losses = one.losses or UNSET
    if one.content_type is None and not one.losses and not _has_more(one) and (raw := as_json(one.body)) is not None:
        # Nearly all messages are like this; making no dict saves as much as `as_json` costs.
        return answers.MessageAnswer(
            topic=topic.name,
            queue=one.queue,
            offset=one.offset,
            attempt=one.attempt,
            losses=losses,
            id=str(one.id),
            key=one.key,
            ordering_key=one.ordering_key,
            tag=one.tag,
            headers=_headers(one.headers),
            body=raw,
            published_at=format_time(one.accepted_at),
            deliver_at=format_time(one.deliver_at),
        )
    return answers.MessageAnswer(
        topic=topic.name, queue=one.queue, offset=one.offset, attempt=one.attempt, losses=losses, **_content(one)
    )


def _headers(headers: bytes | None) -> msgspec.Raw | None:
    return None if headers is None or headers_of(headers) is None else msgspec.Raw(headers)


def _content(one: Delivered | Found) -> dict[str, Any]:
    """The fields of `Content`. The body is unchanged: JSON text as it was written, or bytes with their type.

    A body that should be JSON but is not is sent as bytes: else nobody could parse the answer, nor its other
    messages.
    """
    content: dict[str, Any] = {
        "id": str(one.id),
        **{name: getattr(one, name) for name in LABELS},
        "headers": _headers(one.headers),
        "published_at": format_time(one.accepted_at),
        "deliver_at": format_time(one.deliver_at),
    }
    if one.expires_at is not None:
        content["expires_at"] = format_time(one.expires_at)
    if (erased_at := erased_at_of(one.content_type)) is not None:
        content["erased_at"] = format_time(erased_at)
    elif one.body is not None and one.content_type is None and (raw := as_json(one.body)) is not None:
        content["body"] = raw
    elif one.body is not None:
        content["body_base64"], content["content_type"] = one.body, one.content_type or BYTES
    return content


def dead_letter(topic: Topic, letter: DeadLetter) -> answers.DeadAnswer:
    """A dead letter: the message as claimed, when it died, and its attempts."""
    return answers.DeadAnswer(
        **msgspec.structs.asdict(message(topic, letter.message)),
        dead_at=format_time(letter.dead_at),
        attempts=[answers.Attempt.of(one) for one in since_redrive(letter.history)],
    )


def found(one: Found, held: str | None) -> answers.FoundAnswer:
    """A message in any state, and why its guard holds it, if it does."""
    content = _content(one)
    content |= {"topic": one.topic, "state": one.state, "queue": one.queue, "offset": one.offset}
    if one.erased_at is not None:
        content["erased_at"] = format_time(one.erased_at)
    content["guard"] = UNSET if one.guard is None else one.guard
    content["held"] = UNSET if held is None else held
    return answers.FoundAnswer(**content, life=_life(one))


def erasure(one: Erasure) -> answers.ErasureAnswer:
    return answers.ErasureAnswer.of(one, id=str(one.id))


def _life(one: Found) -> list[answers.Happening]:
    """Each event; for its promotion and the first claim of each group, also how late it was."""
    claimed = set[str | None]()
    life: list[answers.Happening] = []
    for event in one.life:
        first = event.what == "claimed" and event.attempt == 1 and event.group not in claimed
        if event.what == "claimed":
            claimed.add(event.group)
        late = max(0, event.at - one.deliver_at) if first or event.what == "promoted" else UNSET
        life.append(answers.Happening.of(event, late=late))
    return life


def topic(one: Topic) -> answers.TopicAnswer:
    ladder = one.ladder
    return answers.TopicAnswer.of(
        one,
        topic=one.name,
        queues=len(one.queues),
        ladder=None if ladder is None else list(ladder.rungs),
        jitter=None if ladder is None else ladder.jitter,
    )


def topic_settings(one: Topic, settings: Settings) -> answers.TopicSettings:
    """A topic with the defaults that apply where it has no values of its own."""
    return answers.TopicSettings(**msgspec.structs.asdict(topic(one)), defaults=_topic_defaults(settings))


def _topic_defaults(settings: Settings) -> answers.TopicDefaults:
    ladder = Ladder(settings.ladder)
    return answers.TopicDefaults(retention=settings.retention, ladder=list(ladder.rungs), jitter=ladder.jitter)


def topic_counts(one: Topic, state: TopicState) -> answers.TopicCounts:
    return answers.TopicCounts.of(state, **msgspec.structs.asdict(topic(one)))


def topic_ranked(one: Topic, state: TopicState, activity: Activity) -> answers.TopicRanked:
    """A topic with its counts, rates and backlog."""
    return answers.TopicRanked(
        **msgspec.structs.asdict(topic_counts(one, state)),
        published_rate=round(activity.rate.published, 2),
        delivered_rate=round(activity.rate.delivered, 2),
        backlog=activity.backlog,
    )


def topic_detail(
    one: Topic,
    state: TopicState,
    groups: Sequence[tuple[Group, counting.GroupCounts]],
    held_back: int,
    settings: Settings,
) -> answers.TopicDetail:
    # A row may be in memory twice for a moment, so the number is capped at what waits at all.
    waiting = state.pending + sum(counts.retrying for _, counts in groups)
    return answers.TopicDetail(
        **msgspec.structs.asdict(topic_counts(one, state)),
        held_back=min(held_back, waiting),
        defaults=_topic_defaults(settings),
        groups=[group_counts(group, counts) for group, counts in groups],
    )


def group_summary(one: Group) -> answers.GroupSummary:
    """A group with its ladder (its own, its topic's or the default) and its limit."""
    return answers.GroupSummary.of(
        one,
        group=one.name,
        topic=one.topic.name,
        ladder=list(one.ladder.rungs),
        jitter=one.ladder.jitter,
        on_exhausted="block" if one.block else "dead",
    )


def group_settings(one: Group, settings: Settings) -> answers.GroupSettings:
    """A group with the source of its ladder, and the ladder that it would have without its own."""
    of_topic = one.topic.ladder
    inherited = Ladder(settings.ladder) if of_topic is None else of_topic
    whose = "server" if of_topic is None else "topic"
    return answers.GroupSettings(
        **msgspec.structs.asdict(group_summary(one)),
        ladder_of=whose if one.own_ladder is None else "group",
        defaults=answers.GroupDefaults(ladder=list(inherited.rungs), jitter=inherited.jitter, ladder_of=whose),
    )


def group_counts(one: Group, counts: counting.GroupCounts) -> answers.GroupCounts:
    return answers.GroupCounts.of(counts, **msgspec.structs.asdict(group_summary(one)), dead_letters=counts.letters)


def group_detail(one: Group, state: GroupState, settings: Settings) -> answers.GroupDetail:
    def queues(*, retry: bool) -> list[answers.QueueAnswer]:
        owned = one.topic.ordered and not retry
        return [
            answers.QueueAnswer.of(queue, owner=state.owners.get(queue.queue) if owned else UNSET)
            for queue in state.queues
            if queue.retry == retry
        ]

    return answers.GroupDetail.of(
        state,
        **msgspec.structs.asdict(group_settings(one, settings)),
        backlog=sum(queue.lag for queue in state.queues),
        queues=queues(retry=False),
        retry_queues=queues(retry=True),
        dead_letters=state.letters,
    )
