"""The work of `manage.py tarry_worker`: runs tasks of some queues, and publishes those that others left behind."""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false

import logging
from collections.abc import Sequence
from datetime import timedelta
from threading import Event, Thread
from typing import Any

from django.db import close_old_connections, connections
from django.utils import timezone
from django.utils.crypto import get_random_string

from ..delivery import Delivery
from ..errors import TarryError
from ..tarry import Tarry
from .lanes import topics_of
from .models import StoredTask
from .priority_gate import PriorityGate
from .running import TryAgain, run_stored
from .tasks import TarryBackend

LEFT_BEHIND = timedelta(seconds=30)
"""The age from which on a row is no longer expected to be handed over by its own process."""
_LOOK = 10.0
"""Seconds between two looks for such rows."""
_BATCH = 100
_LONGEST_REST = 7200.0
"""Seconds between two attempts, at most."""

log = logging.getLogger("tarry.client.django")


class Worker:
    """Runs `workers` tasks at a time, in threads. Its id is in the results of the tasks that it ran."""

    def __init__(self, backend: TarryBackend, queues: Sequence[str], workers: int) -> None:
        self.id = get_random_string(32)
        self._backend = backend
        self._queues = queues
        self._workers = workers
        self._gate = PriorityGate(workers)

    @property
    def waiting(self) -> int:
        """How many tasks are claimed, and not run yet."""
        return self._gate.waiting

    def run(self, stop: Event) -> None:
        """Works until `stop`; tasks that run by then are finished."""
        of = self._backend.configuration
        topics = [topic for queue in self._queues for topic in topics_of(of, queue)]
        with Tarry(of.url, key=of.key) as tarry:
            for topic in topics:
                tarry.put_topic(topic)
            server = Thread(target=self._serve, args=(tarry, topics, stop), name="tarry-tasks")
            server.start()
            try:
                while not stop.is_set():
                    self._try_to_hand_over()
                    stop.wait(_LOOK)
            finally:
                stop.set()
                server.join()

    def _serve(self, tarry: Tarry, topics: Sequence[str], stop: Event) -> None:
        # Twice as many tasks of each topic are held as run at a time, so that the urgent can go first.
        group, held = self._backend.configuration.group, 2 * self._workers
        try:
            tarry.run(
                [(topic, self._handle) for topic in topics],
                group,
                workers=held * len(topics),
                pass_message=True,
                max=held,
                max_cached=held * len(topics),
                stop=stop,
                signals=False,
                drain=None,
                start="earliest",
            )
        except Exception:
            log.exception("the topics are served no more, so the worker ends")
            raise
        finally:
            stop.set()

    def _handle(self, message: Delivery) -> None:
        body: dict[str, Any] = message.body
        with self._gate.passing(body["priority"]):
            close_old_connections()
            try:
                run_stored(self._backend, body["task"], self.id)
            except TryAgain as failed:
                rest = self._backend.configuration.retry_after * 2 ** (failed.attempt - 1)
                message.retry(timedelta(seconds=min(rest, _LONGEST_REST)), reason=str(failed), count=False)
            finally:
                connections.close_all()

    def _try_to_hand_over(self) -> None:
        try:
            while self.hand_over(timezone.now() - LEFT_BEHIND) == _BATCH:
                pass
        except TarryError as error:
            log.warning("what was left behind is not handed over yet: %s", error)
        finally:
            close_old_connections()

    def hand_over(self, before: Any) -> int:
        """Publishes rows enqueued before `before` that nobody has handed over; returns how many, 100 at most."""
        rows = StoredTask.objects.using(self._backend.configuration.database)
        left = rows.filter(handed_over=False, enqueued_at__lt=before, backend=self._backend.alias)
        found = list(left.order_by("enqueued_at")[:_BATCH])
        for stored in found:
            self._backend.hand_over(stored)
        return len(found)
