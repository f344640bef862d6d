"""`manage.py tarry_worker`: runs tasks until SIGTERM or Ctrl-C."""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false

import signal
from argparse import ArgumentParser
from threading import Event
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...framework import task_backends
from ...tasks import TarryBackend
from ...worker import Worker


class Command(BaseCommand):
    """The command; when it is told to end, it finishes the tasks that run."""

    help = "Runs the tasks that were enqueued with TarryBackend."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--backend", default="default", help="the alias in TASKS (default: %(default)s)")
        parser.add_argument("--queue", action="append", help="a queue to work for; all of the backend's if left out")
        parser.add_argument("--workers", type=int, default=4, help="tasks at a time (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, TarryBackend):
            raise CommandError(f"--backend: {options['backend']} is not a TarryBackend")
        queues = options["queue"] or sorted(backend.queues)
        if unknown := [queue for queue in queues if backend.queues and queue not in backend.queues]:
            raise CommandError(f"--queue: {unknown[0]} is not in QUEUES of the backend {options['backend']}")
        if not queues:
            raise CommandError("--queue: QUEUES of the backend is empty, so name the queues to work for")
        if options["workers"] < 1:
            raise CommandError("--workers: say 1 or more")
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        worker = Worker(backend, queues, options["workers"])
        self.stdout.write(f"worker {worker.id} works for {', '.join(queues)}")
        worker.run(stop)
