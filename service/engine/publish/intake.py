"""The intake: publish, cancel and reschedule, each written in batches; the parts that have to know are told."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import trio
from attrs import define, field

from ....store.errors import Refused, StoreError, TopicGone, Unavailable
from ....store.records import Conflict, Draft, Publication, Queue, Receipt, Topic, Verdict, weight_of
from ....store.store import Store
from ....store.stream.placing import own_queue, queue_of_key
from ....store.timers import timers
from ...clock import Clock
from ...errors import Busy, ServiceError, TooMany
from ...metrics import Metrics
from ..batching.combiner import Combiner
from ..batching.patience import until_free
from ..cluster.nodes import Nodes
from ..signals import Signals
from ..state.directory import Directory
from .accepted import Accepted
from .limits import Limits
from .schedules import Schedules

_BATCH_BYTES = 2 << 20
_OUTBOX_ROWS = 1000
"""Cancels of users' own transactions that are counted together."""

_PAGE = 500
"""Messages of a key that are looked at together."""

Answer = list[Receipt] | Conflict
_Some = Sequence[Publication]
"""Publications that are asked for together, in their order."""


@define(eq=False)
class Intake:
    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _accepted: Accepted
    _signals: Signals
    _limits: Limits
    _schedules: Schedules
    _nodes: Nodes
    _max_waiting: int
    _last: Draft | None = field(default=None, init=False)
    """The last message that somebody asked to publish."""
    _turn: Iterator[int] = field(factory=itertools.count, init=False)
    _publishing: Combiner[_Some, Sequence[Answer | None]] = field(init=False)
    _cancelling: Combiner[int, Verdict] = field(init=False)
    _rescheduling: Combiner[tuple[int, int], Verdict] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._publishing = Combiner(
            self._publish,
            write_free=self._publish_free,
            lane=self._lane,
            weigh=_weight,
            batch=_BATCH_BYTES,
            waiting=self._max_waiting,
            writers=self._writers,
            linger=lambda: self._writers() == 1,  # other nodes draw from the same row
        )
        self._cancelling = Combiner(self._cancel)
        self._rescheduling = Combiner(self._reschedule)

    def open(self, nursery: trio.Nursery) -> None:
        for run in (self._publishing.run, self._cancelling.run, self._rescheduling.run):
            nursery.start_soon(run)

    def hurry(self) -> None:
        """From now on nobody waits for locked rows."""
        self._publishing.hurry()

    @property
    def idle(self) -> bool:
        return self._publishing.idle and self._cancelling.idle and self._rescheduling.idle

    async def publish(self, publication: Publication) -> Answer:
        """Publishes the whole publication or nothing. Raises `TooMany` where a limit of its topic is reached."""
        topic = publication.drafts[0].topic
        if not topic.limited:
            return await self._publish_one(publication)
        messages, waiting = len(publication.drafts), self._waiting(publication)
        await self._limits.look(topic)
        self._limits.take(topic, messages, waiting)
        written = False
        try:
            answer = await self._publish_one(publication)
            written = _is_written(answer)
        finally:
            self._limits.landed(topic, messages, waiting, written=written)
        return answer

    async def _publish_one(self, publication: Publication) -> Answer:
        try:
            (answer,) = await self._ask((publication,))
        except TopicGone:
            self._directory.forget_topic(publication.drafts[0].topic)
            raise
        return answer  # type: ignore[return-value]  # None only beside others that have an answer

    async def publish_each(self, publications: _Some) -> list[Answer | ServiceError | StoreError]:
        """Publishes these in one transaction if it can, each of them whole or not at all. Returns for each, in order,
        its answer or what went wrong with it. If that was an error of the store or the service, all behind it that were
        not done yet have an error, too."""
        if not publications or not publications[0].drafts[0].topic.limited:
            return await self._publish_all(publications)
        topic = publications[0].drafts[0].topic
        try:
            await self._limits.look(topic)
        except StoreError as error:
            return [error] * len(publications)
        refusals = self._refusals(topic, publications)
        taken = [one for one, refusal in zip(publications, refusals, strict=True) if refusal is None]
        answers: list[Answer | ServiceError | StoreError] = []
        try:
            answers += await self._publish_all(taken)
        finally:
            for place, one in enumerate(taken):
                written = place < len(answers) and _is_written(answers[place])
                self._limits.landed(topic, len(one.drafts), self._waiting(one), written=written)
        rest = iter(answers)
        return [next(rest) if refusal is None else refusal for refusal in refusals]

    def _refusals(self, topic: Topic, publications: _Some) -> list[TooMany | None]:
        """For each, why it is refused, or None. Nothing goes past a refused one that it has to come behind."""
        refusals: list[TooMany | None] = []
        keys: dict[str | None, TooMany] = {}
        for publication in publications:
            key = publication.drafts[0].ordering_key
            refusal = keys.get(key)
            if refusal is None:
                try:
                    self._limits.take(topic, len(publication.drafts), self._waiting(publication))
                except TooMany as error:
                    refusal = error
                    if key is not None or topic.ordered:
                        keys[key] = error
            refusals.append(refusal)
        return refusals

    def _waiting(self, publication: Publication) -> int:
        now = self._clock.now()
        return sum(draft.deliver_at is not None and draft.deliver_at > now for draft in publication.drafts)

    async def _publish_all(self, publications: _Some) -> list[Answer | ServiceError | StoreError]:
        answers = list(await self._try(publications)) if publications else []
        while left := [place for place, answer in enumerate(answers) if answer is None]:
            # These need a row that another transaction holds.
            again = await self._try([publications[place] for place in left])
            for place, answer in zip(left, again, strict=True):
                answers[place] = answer
        return answers  # type: ignore[return-value]  # none of them is None

    async def _try(self, publications: _Some) -> Sequence[Answer | ServiceError | StoreError | None]:
        try:
            return await self._ask(publications)
        except TopicGone as error:
            self._directory.forget_topic(publications[0].drafts[0].topic)
            return [error] * len(publications)
        except Refused as error:  # due to one of them
            middle = len(publications) // 2
            if not middle:
                return [error]
            first, second = await self._try(publications[:middle]), publications[middle:]
            if any(
                isinstance(answer, ServiceError | StoreError) and not isinstance(answer, Refused) for answer in first
            ):
                return [*first, *[Busy("what lies before it could not be done")] * len(second)]
            return [*first, *await self._try(second)]
        except (ServiceError, StoreError) as error:
            return [error] * len(publications)

    async def _ask(self, publications: _Some) -> Sequence[Answer | None]:
        self._last = publications[-1].drafts[-1]
        return await self._publishing.ask(publications)

    async def cancel(self, id_: int) -> Verdict:
        """Cancels a waiting message. Raises `Busy` while another transaction holds it."""
        return await until_free(lambda: self._cancelling.ask(id_), _is_locked, "this message")

    async def reschedule(self, id_: int, deliver_at: int) -> Verdict:
        """Moves a waiting message to `deliver_at`, Unix milliseconds. Raises `Busy` as `cancel` does."""
        return await until_free(lambda: self._rescheduling.ask((id_, deliver_at)), _is_locked, "this message")

    async def cancel_labelled(self, topic: Topic, key: str) -> tuple[int, int]:
        """Cancels all waiting messages of a key. Returns how many, and for how many it was too late. Raises `Busy`."""
        cancelled = too_late = 0
        after: int | None = -1
        while after is not None:
            waiting, gone, after = await self._store.read(timers.labelled, topic, key, after, _PAGE)
            verdicts = await self._cancel_each(waiting)
            cancelled += sum(1 for verdict in verdicts if verdict.result == "cancelled" and verdict.fresh)
            too_late += gone + sum(1 for verdict in verdicts if verdict.result == "too_late")
        return cancelled, too_late

    async def _cancel_each(self, ids: Sequence[int]) -> list[Verdict]:
        """Cancels these together. When all are done, raises the first error, if there was one."""
        verdicts: list[Verdict] = []
        wrong: list[ServiceError | StoreError] = []

        async def one(id_: int) -> None:
            try:
                verdicts.append(await self.cancel(id_))
            except (ServiceError, StoreError) as error:
                wrong.append(error)

        async with trio.open_nursery() as nursery:
            for id_ in ids:
                nursery.start_soon(one, id_)
        if wrong:
            raise wrong[0]
        return verdicts

    def choose_queue(self, topic: Topic, ordering_key: str | None) -> Queue:
        """The queue of a message that names none: by hash of its ordering key, else in turn.

        For an unordered topic this node takes queues of its own if there are enough, so that no two nodes wait for one
        row; which queues are whose is a matter of speed alone. In an ordered one clients own queues, and all are used.
        """
        if ordering_key is not None:
            return queue_of_key(topic, ordering_key)
        place, nodes = (0, 1) if topic.ordered else self._nodes.place
        return topic.queues[own_queue(place, nodes, len(topic.queues), next(self._turn))]

    async def count_outbox(self) -> None:
        """Counts what users have cancelled in their own transactions."""
        while cancelled := await self._store.count_outbox(_OUTBOX_ROWS):
            for topic_id, (messages, first_heard) in cancelled.items():
                self._accepted.count(topic_id, first_heard)
                self._metrics.cancelled(self._directory.name_of(topic_id), messages)
            await trio.sleep(0.05)  # others come first

    def _writers(self) -> int:
        """Batches at a time. With two, callers of the one are answered and their next requests are taken while the
        database writes the other. Where other nodes draw from the same row, the second would stand in line with theirs:
        one that is larger does more. Assumes that the next request resembles the last one."""
        nodes, last = self._nodes.place[1], self._last
        if nodes == 1 or last is None or (last.deliver_at is not None and last.deliver_at > self._clock.now()):
            return 2
        return 1 if last.ordering_key is not None or nodes > len(last.topic.queues) else 2

    def _lane(self, publications: _Some) -> tuple[int, ...]:
        """What these share with others: the queues they go to now, or their topic's tally when all are for later."""
        now: int | None = None
        queues: set[int] = set()
        for publication in publications:
            for draft in publication.drafts:
                if draft.deliver_at is not None:
                    now = self._clock.now() if now is None else now
                    if draft.deliver_at > now:
                        continue
                queues.add(draft.queue.id)
        return tuple(sorted(queues)) or (-publications[0].drafts[0].topic.id,)

    def _still_there(self, asked: Sequence[_Some]) -> list[Publication]:
        """All the publications. Raises `Unavailable` if one has waited while another server took the database, and its
        topic is not there as it was: its ids may be another topic's."""
        publications = [publication for some in asked for publication in some]
        for publication in publications:
            if self._directory.is_lost(topic := publication.drafts[0].topic):
                raise Unavailable(f"another server has the database now, and has no topic {topic.name!r} as it was")
        return publications

    async def _publish(self, asked: Sequence[_Some]) -> list[Sequence[Answer | None]]:
        publications = self._still_there(asked)
        answers = await self._store.publish(publications, self._clock.now())
        self._tell(publications, answers)
        return _dealt(asked, answers)

    async def _publish_free(self, asked: Sequence[_Some]) -> list[Sequence[Answer | None] | None]:
        publications = self._still_there(asked)
        answers = await self._store.publish_free(publications, self._clock.now())
        self._tell(publications, answers)
        return [None if all(one is None for one in some) else some for some in _dealt(asked, answers)]

    def _tell(self, publications: _Some, answers: Sequence[Answer | None]) -> None:
        grown = set[int]()
        accepted = defaultdict[int, int](int)
        for publication, answer in zip(publications, answers, strict=True):
            if not isinstance(answer, list) or answer[0].replayed:
                continue
            drafts = publication.drafts
            accepted[drafts[0].topic.id] += len(drafts)
            for draft, receipt in zip(drafts, answer):  # noqa: B905  # the store gives one each; saying so costs a fifth
                if receipt.offset is None:
                    self._signals.timer_added(receipt.due, receipt.id)
                else:
                    grown.add(draft.queue.id)
        for queue_id in grown:
            self._signals.queue_written(queue_id)
        for topic_id, messages in accepted.items():
            self._accepted.count(topic_id, messages)

    async def _cancel(self, ids: Sequence[int]) -> list[Verdict]:
        verdicts = await self._store.cancel(ids, self._clock.now())
        for id_, verdict in zip(ids, verdicts, strict=True):
            if verdict.due_before is not None:
                self._signals.timer_gone(verdict.due_before, id_)
                if verdict.topic is not None:
                    self._accepted.count(verdict.topic, int(verdict.first_heard))
                self._metrics.cancelled("" if verdict.topic is None else self._directory.name_of(verdict.topic), 1)
        of_schedules = [id_ for id_, verdict in zip(ids, verdicts, strict=True) if verdict.of_schedule]
        if of_schedules:
            await self._schedules.go_on(of_schedules)
        return verdicts

    async def _reschedule(self, moves: Sequence[tuple[int, int]]) -> list[Verdict]:
        verdicts = await self._store.write(timers.reschedule, moves, self._clock.now())
        for (id_, _), verdict in zip(moves, verdicts, strict=True):
            if verdict.due_before is not None and verdict.due is not None:
                self._signals.timer_gone(verdict.due_before, id_)
                self._signals.timer_added(verdict.due, id_)
        return verdicts


def _dealt(asked: Sequence[_Some], answers: Iterable[Answer | None]) -> list[Sequence[Answer | None]]:
    """The answers, dealt out to the requests that they belong to."""
    rest = iter(answers)
    return [list(itertools.islice(rest, len(some))) for some in asked]


def _is_written(answer: Answer | Exception) -> bool:
    """Whether the answer is of messages that were not there before."""
    return isinstance(answer, list) and not answer[0].replayed


def _weight(publications: _Some) -> int:
    return weight_of([draft for publication in publications for draft in publication.drafts])


def _is_locked(verdict: Verdict) -> bool:
    return verdict.result == "locked"
