"""Django's documented contract of tasks, a case a test: on Tarry's own MySQL with the outbox, and on SQLite without.

A real project, a real server, and for each backend a worker in a process of its own.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support.server import start_server
from support.servers import database
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import python_path

BACKENDS = ["default", "outbox"]


class Site:
    """The project in this process, whose parts are there once it is set up."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log
        self.ends = ExitStack()
        """Waits for workers that were told to end. Each waits for its long poll, 2 s; here they do so together."""
        self.tasks: Any = import_module("support.django_site.tasks")
        self.framework: Any = import_module("tarry.client.django.framework")
        self.worker: Any = import_module("tarry.client.django.worker")
        self.transaction: Any = import_module("django.db").transaction
        self.stored: Any = import_module("tarry.client.django.models").StoredTask
        exceptions: Any = import_module("django_tasks.exceptions")
        self.invalid, self.unknown = exceptions.InvalidTaskError, exceptions.TaskResultDoesNotExist
        self.mismatch = exceptions.TaskResultMismatch

    def alias_of(self, backend: str) -> str:
        """Of the database."""
        return str(self.framework.task_backends[backend].configuration.database)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, mysql_server: str) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        dsn = stack.enter_context(database(mysql_server))
        server = stack.enter_context(start_server(home, dsn))
        said = {"SITE_MYSQL": dsn, "SITE_SQLITE": str(home / "site.db"), "SITE_TARRY": server.url}
        os.environ |= said | {"DJANGO_SETTINGS_MODULE": "support.django_site.settings"}
        import_module("django").setup()
        management: Any = import_module("django.core.management")
        for alias in ("default", "shop"):
            management.call_command("migrate", database=alias, verbosity=0)
        log = stack.enter_context((home / "workers.log").open("w+"))
        workers = [stack.enter_context(_worker(backend, log)) for backend in (*BACKENDS, "patient")]
        site = Site(server.url, home / "workers.log")
        yield site
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        site.ends.close()
        for worker in workers:
            worker.communicate(timeout=30)
        assert [worker.returncode for worker in workers] == [0, 0, 0], (home / "workers.log").read_text()
        import_module("django.db").connections.close_all()
        for name in (*said, "DJANGO_SETTINGS_MODULE"):
            del os.environ[name]


def _worker(backend: str, log: IO[str]) -> "subprocess.Popen[str]":
    ours = Path(__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "django", "tarry_worker", "--backend", backend]
        + ([] if backend == "patient" else ["--queue", "default", "--queue", "mails"]),
        env=os.environ | {"PYTHONPATH": f"{ours}{os.pathsep}{python_path().get('PYTHONPATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ended(site: Site) -> Callable[[Any], Any]:
    def wait(result: Any) -> Any:
        """The result, refreshed until it is finished."""
        return _until(lambda: _refreshed(result).is_finished and result)

    return wait


def test_enqueue_gives_a_result_that_is_ready(site: Site, backend: str) -> None:
    result = site.tasks.add.using(backend=backend).enqueue(1, other=2)
    assert (result.status, result.args, result.kwargs, result.backend) == ("READY", [1], {"other": 2}, backend)
    assert 0 < len(result.id) < 64
    assert (result.started_at, result.finished_at, result.attempts, result.errors) == (None, None, 0, [])
    assert result.enqueued_at is not None
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value


def test_a_worker_runs_it_and_the_result_tells_when_and_by_whom(
    site: Site, backend: str, ended: Callable[[Any], Any]
) -> None:
    result = ended(site.tasks.add.using(backend=backend).enqueue(1, other=2))
    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 3, 1)
    assert len(result.worker_ids) == 1
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at


def test_none_is_a_return_value(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    result = ended(site.tasks.nothing.using(backend=backend).enqueue())
    assert (result.status, result.return_value) == ("SUCCESSFUL", None)


def test_a_task_that_raises_has_failed_with_its_class_and_traceback(
    site: Site, backend: str, ended: Callable[[Any], Any]
) -> None:
    result = ended(site.tasks.fail.using(backend=backend).enqueue("out of paper"))
    (error,) = result.errors
    assert (result.status, error.exception_class) == ("FAILED", ValueError)
    assert error.traceback.rstrip().endswith("ValueError: out of paper")
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    head, begins = f"Task id={result.id} path=support.django_site.tasks.fail state=FAILED", "\nTraceback (most recent"
    wait_until(lambda: site.log.read_text().partition(head)[2].startswith(begins))


def test_a_task_that_cannot_be_started_has_failed(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    result = ended(site.tasks.add.using(backend=backend).enqueue("too", "many", "arguments"))
    assert (result.status, result.errors[0].exception_class) == ("FAILED", TypeError)


def test_a_return_value_that_is_not_json_fails_the_task(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    result = ended(site.tasks.unwritable.using(backend=backend).enqueue())
    assert (result.status, result.errors[0].exception_class) == ("FAILED", TypeError)


def test_arguments_that_are_not_json_are_refused_at_once(site: Site, backend: str) -> None:
    before = site.stored.objects.using(site.alias_of(backend)).count()
    with pytest.raises(TypeError):
        site.tasks.kind_of.using(backend=backend).enqueue(datetime.now())
    assert site.stored.objects.using(site.alias_of(backend)).count() == before


def test_a_tuple_arrives_as_a_list(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    assert ended(site.tasks.kind_of.using(backend=backend).enqueue((1, 2))).return_value == "list"


def test_a_coroutine_may_be_a_task(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    assert ended(site.tasks.later.using(backend=backend).enqueue("ada")).return_value == "ADA"


def test_the_context_tells_attempt_and_result(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    result = ended(site.tasks.told.using(backend=backend).enqueue("word"))
    assert result.return_value == ["word", 1, result.id]


def test_run_after_is_the_earliest_time(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    ended(site.tasks.add.using(backend=backend).enqueue(0))  # a worker that is still starting would be late anyhow
    now: datetime = import_module("django.utils.timezone").now()
    result = site.tasks.add.using(backend=backend, run_after=now + timedelta(milliseconds=300)).enqueue(1)
    assert result.task.run_after == now + timedelta(milliseconds=300)
    assert ended(result).started_at >= result.task.run_after
    assert result.task.get_backend().get_result(result.id).task.run_after == result.task.run_after


def test_run_after_has_to_be_aware(site: Site, backend: str) -> None:
    with pytest.raises(site.invalid, match="aware"):
        site.tasks.add.using(backend=backend, run_after=datetime.now())


@pytest.mark.parametrize("priority", [101, -101, 1.5])
def test_a_priority_out_of_range_is_refused(site: Site, backend: str, priority: float) -> None:
    with pytest.raises(site.invalid, match="priority"):
        site.tasks.add.using(backend=backend, priority=priority)


def test_a_queue_that_is_not_in_queues_is_refused(site: Site, backend: str) -> None:
    with pytest.raises(site.invalid, match="letters"):
        site.tasks.add.using(backend=backend, queue_name="letters")


def test_a_task_of_another_queue_is_run(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    result = ended(site.tasks.add.using(backend=backend, queue_name="mails").enqueue(4))
    assert (result.return_value, result.task.queue_name) == (4, "mails")


def test_using_leaves_the_task_as_it_was(site: Site, backend: str) -> None:
    other = site.tasks.add.using(backend=backend, priority=10, queue_name="mails")
    assert (other.priority, other.queue_name) == (10, "mails")
    assert (site.tasks.add.priority, site.tasks.add.queue_name, site.tasks.add.backend) == (0, "default", "default")


def test_a_function_that_is_not_of_a_module_is_refused(site: Site, backend: str) -> None:
    with pytest.raises(site.invalid, match="module level"):
        site.framework.Task(func=lambda: None, backend=backend)


def test_a_result_is_found_by_its_id(site: Site, backend: str) -> None:
    task = site.tasks.add.using(backend=backend)
    sent = task.enqueue(5)
    found, of_backend = task.get_result(sent.id), site.framework.task_backends[backend].get_result(sent.id)
    assert found.id == of_backend.id == sent.id
    assert found.task == sent.task
    assert found.enqueued_at == sent.enqueued_at


def test_an_unknown_id_has_no_result(site: Site, backend: str) -> None:
    with pytest.raises(site.unknown):
        site.tasks.add.using(backend=backend).get_result("unknown")


def test_a_result_of_another_task_is_a_mismatch(site: Site, backend: str) -> None:
    sent = site.tasks.add.using(backend=backend).enqueue(5)
    with pytest.raises(site.mismatch):
        site.tasks.nothing.using(backend=backend).get_result(sent.id)


def test_all_of_it_can_be_awaited(site: Site, backend: str) -> None:
    task = site.tasks.add.using(backend=backend)

    async def go() -> Any:
        sent = await task.aenqueue(6)
        result = await task.aget_result(sent.id)
        until = time.monotonic() + 60
        while not result.is_finished:
            assert time.monotonic() < until
            await asyncio.sleep(0.01)
            await result.arefresh()
        return result

    assert asyncio.run(go()).return_value == 6


def test_what_is_rolled_back_is_never_run(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    task = site.tasks.add.using(backend=backend)

    def roll_back() -> str:
        with site.transaction.atomic(using=site.alias_of(backend)):
            sent = task.enqueue(7)
            assert task.get_result(sent.id).status == "READY"
            raise RuntimeError(sent.id)

    with pytest.raises(RuntimeError) as raised:
        roll_back()
    ended(task.enqueue(8))  # what was enqueued behind it has come through
    with pytest.raises(site.unknown):
        task.get_result(str(raised.value))
    with Tarry(site.url) as tarry:
        prefix = site.framework.task_backends[backend].configuration.prefix
        assert list(tarry.find(topic=f"{prefix}.default", key=str(raised.value))) == []


def test_nothing_is_run_before_the_commit(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    task = site.tasks.add.using(backend=backend)
    other = "outbox" if backend == "default" else "default"
    with site.transaction.atomic(using=site.alias_of(backend)):
        sent = task.enqueue(9)
        ended(site.tasks.add.using(backend=other).enqueue(0))
        assert task.get_result(sent.id).status == "READY"
    assert ended(sent).return_value == 9


def test_signals_tell_of_what_was_enqueued_once_it_is_committed(site: Site, backend: str) -> None:
    told: list[str] = []

    def hear(sender: Any, task_result: Any, **_: Any) -> None:
        told.append(task_result.id)

    site.framework.task_enqueued.connect(hear)
    try:
        with site.transaction.atomic(using=site.alias_of(backend)):
            sent = site.tasks.add.using(backend=backend).enqueue(1)
            assert told == []
    finally:
        site.framework.task_enqueued.disconnect(hear)
    assert told == [sent.id]


def test_attempts_are_counted_where_the_backend_allows_several(site: Site, ended: Callable[[Any], Any]) -> None:
    result = ended(site.tasks.third_time_lucky.using(backend="patient").enqueue())
    assert (result.return_value, result.attempts) == (3, 3)
    assert [error.exception_class for error in result.errors] == [ConnectionError] * 2
    assert result.started_at < result.last_attempted_at


def test_the_urgent_goes_before(site: Site, backend: str, ended: Callable[[Any], Any]) -> None:
    """One at a time, while all wait."""
    worker = site.worker.Worker(site.framework.task_backends[backend], ["urgency"], 1)
    stop = Event()
    site.tasks.gate.clear()
    first = site.tasks.wait.using(backend=backend, queue_name="urgency").enqueue()
    thread = Thread(target=worker.run, args=(stop,))
    thread.start()
    site.ends.callback(_wait_for_end, thread)
    try:
        _until(lambda: _refreshed(first).status == "RUNNING")
        sent = {
            priority: site.tasks.add.using(backend=backend, queue_name="urgency", priority=priority).enqueue(0)
            for priority in (-3, 0, 5, 50)
        }
        _until(lambda: worker.waiting == 4)
        site.tasks.gate.set()
        began = {priority: ended(result).started_at for priority, result in sent.items()}
        assert sorted(began, key=lambda priority: began[priority]) == [50, 5, 0, -3]
    finally:
        site.tasks.gate.set()
        stop.set()


def _wait_for_end(thread: Thread) -> None:
    thread.join(20)
    assert not thread.is_alive()


def test_a_request_does_not_fail_with_the_server_and_a_worker_hands_over_what_it_left(site: Site) -> None:
    sent = site.tasks.add.using(backend="unheard").enqueue(1)
    rows = site.stored.objects.filter(pk=sent.id)
    assert not rows.get().handed_over
    back = site.framework.task_backends["unheard"]
    options = back.options
    back.options = {"PREFIX": "unheard"}
    try:
        now: datetime = import_module("django.utils.timezone").now()
        assert site.worker.Worker(back, ["default"], 1).hand_over(now) == 1
        assert site.worker.Worker(back, ["default"], 1).hand_over(now) == 0
    finally:
        back.options = options
    with Tarry(site.url) as tarry:
        claim = tarry.claim("unheard.default", "workers", start="earliest")
        assert claim is not None
        assert [message.body["task"] for message in claim.messages] == [sent.id]


def test_a_message_that_comes_again_does_not_run_what_is_finished(
    site: Site, backend: str, ended: Callable[[Any], Any]
) -> None:
    sent = ended(site.tasks.add.using(backend=backend).enqueue(1))
    running: Any = import_module("tarry.client.django.running")
    running.run_stored(site.framework.task_backends[backend], sent.id, "another")
    sent.refresh()
    assert (sent.attempts, sent.return_value) == (1, 1)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"URI": "x"}, "URL"),
        ({"DEADLINE": "5"}, "DEADLINE"),
        ({"MAX_ATTEMPTS": 0}, "1 or more"),
        ({"OUTBOX": 1}, "bool"),
    ],
)
def test_a_wrong_setting_is_named(site: Site, said: dict[str, Any], told: str) -> None:
    wrong: Any = import_module("django.core.exceptions").ImproperlyConfigured
    with pytest.raises(wrong, match=told):
        import_module("tarry.client.django.configuration").configuration(said)


def test_publishing_goes_with_the_transaction(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ours: Any = import_module("tarry.client.django")
    settings: Any = import_module("django.conf").settings
    monkeypatch.setattr(settings, "TARRY", settings.TARRY | {"DATABASE": "shop", "OUTBOX": True})
    with Tarry(site.url) as tarry:
        tarry.put_topic("orders")
        for keep in (False, True):
            try:
                with site.transaction.atomic(using="shop"):
                    ours.publish("orders", {"outbox": keep})
                    ours.publish_on_commit("orders", {"on_commit": keep})
                    if not keep:
                        raise RuntimeError
            except RuntimeError:
                continue
        bodies: list[Any] = []

        def all_are_there() -> bool:
            bodies.extend(_bodies(tarry))
            return len(bodies) >= 2

        _until(all_are_there)
    assert sorted(bodies, key=str) == [{"on_commit": True}, {"outbox": True}]


def test_what_is_enqueued_carries_the_trace_of_its_request(
    site: Site, backend: str, recorded: InMemorySpanExporter
) -> None:
    with (
        site.transaction.atomic(using=site.alias_of(backend)),
        trace.get_tracer("site").start_as_current_span("request") as request,
    ):
        result = site.tasks.add.using(backend=backend).enqueue(1)
    *_, span = (span for span in recorded.get_finished_spans() if span.name.startswith("send"))
    assert span.parent is not None
    assert span.parent.span_id == request.get_span_context().span_id
    assert span.context is not None
    topic = span.name.removeprefix("send ")
    with Tarry(site.url) as tarry:
        (message,) = _until(lambda: list(tarry.find(topic=topic, key=result.id)))
        carried = tarry.message(message["id"])["headers"]["traceparent"]
    assert carried.split("-")[2] == f"{span.context.span_id:016x}"


def _bodies(tarry: Tarry) -> list[Any]:
    claim = tarry.claim("orders", "all", start="earliest", wait="200ms")
    return [message.body for message in claim.messages] if claim else []


def _refreshed(result: Any) -> Any:
    result.refresh()
    return result


def _until(happened: Callable[[], Any]) -> Any:
    until = time.monotonic() + 60
    while not (what := happened()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return what


def test_the_how_to(site: Site, tmp_path: Path) -> None:
    """Its files, as they are printed but for the address."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "django.md").read_text("utf-8")
    for path, text in re.findall(r"^```python\n# (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text.replace("http://127.0.0.1:8277", site.url))
    own = {name: value for name, value in os.environ.items() if not name.startswith("SITE_")}
    path = f"{tmp_path}{os.pathsep}{python_path().get('PYTHONPATH', '')}"
    command = [sys.executable, "-P", "-m", "django"]
    home: Any = {"cwd": tmp_path, "env": own | {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "shop.settings"}}
    subprocess.run([*command, "migrate", "--verbosity", "0"], check=True, **home)
    worker = subprocess.Popen([*command, "tarry_worker", "--queue", "mails"], stdout=subprocess.DEVNULL, **home)
    site.ends.callback(_wait_for_exit, worker)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", USE], check=False, capture_output=True, text=True, timeout=60, **home
        )
    finally:
        worker.terminate()
    assert done.stdout == "READY\nSUCCESSFUL reminded of order 7\n", done.stderr
    with Tarry(site.url) as tarry:
        claim = tarry.claim("orders", "how-to", start="earliest", max=100)
        assert claim is not None
        assert {"order": 7} in [message.body for message in claim.messages]


def _wait_for_exit(worker: "subprocess.Popen[Any]") -> None:
    assert worker.wait(20) == 0


USE = """
import time, django
django.setup()
from shop.orders import place
from shop.tasks import remind
result = remind.get_result(place(7))
print(result.status)
while not result.is_finished:
    time.sleep(0.02)
    result.refresh()
print(result.status, result.return_value)
"""
