"""What alerts and the dashboard ask for, held against what servers tell once each thing that is counted has happened.

It is the text of `/metrics`, of a server of two processes, before and after a restart: by name, by labels, and by the
values that an expression wants of them.
"""

import json
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from support.gate import Gate
from support.receiver import OK, head, receiver
from support.servers import skip_or_fail
from support.serving import Served, served
from support.stores import connect_raw
from support.waiting import wait_until
from tarry.client import Claim, Tarry
from tarry.service.demo.server_process import free_port

FILES = Path(__file__).parents[2] / "docs" / "operations"
SECRET = "whsec_" + b64encode(b"only the server and I know it").decode()
OF_THE_SCRAPE = {"job", "instance"}
"""Labels that Prometheus gives to whatever it reads."""
MEASURED = {"tarry_group_lag_messages", "tarry_pending_messages", "tarry_cleaned_rows_total"}
"""What is measured every so often, and at the start."""
_SELECTOR = re.compile(r"\b((?:tarry|process)_\w+)(?:\{([^}]*)\})?")


@attrs.frozen
class Asked:
    """What Prometheus is asked, and where that stands."""

    place: str
    expression: str


def of_the_dashboard() -> Iterator[Asked]:
    board = json.loads((FILES / "grafana.json").read_text("utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield Asked(panel["title"], target["expr"])


def of_its_choices() -> Iterator[Asked]:
    """What the lists at its top are filled from, as an expression."""
    board = json.loads((FILES / "grafana.json").read_text("utf-8"))
    for one in board["templating"]["list"]:
        if one["type"] == "query":
            (found,) = re.findall(r"^label_values\((\w+), (\w+)\)$", one["definition"])
            yield Asked(one["label"], f"count by ({found[1]}) ({found[0]})")


def of_the_alerts() -> Iterator[Asked]:
    (group,) = yaml.safe_load((FILES / "alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]:
        yield Asked(rule["alert"], rule["expr"])


ALL = [*of_the_dashboard(), *of_its_choices(), *of_the_alerts()]

Scrape = dict[str, list[dict[str, str]]]
"""By the name of a series, the labels of each that there is."""


def scrape(url: str) -> Scrape:
    found: Scrape = {}
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(dict(sample.labels))
    return found


@attrs.define
class Day:
    """A server at work; each step makes something happen that is counted."""

    server: Served
    url: str
    tarry: Tarry
    door: Gate

    def seen(self, *names: str) -> None:
        """Waits until all of them are told."""
        wait_until(lambda: set(names) <= set(scrape(self.url)))

    def claimed(self, topic: str, lease: str = "60s") -> Claim:
        claim = self.tarry.claim(topic, "billing", wait="10s", lease=lease, start="earliest")
        assert claim is not None
        return claim

    def messages(self) -> None:
        """Delivered and acked, failed until it is dead, cancelled, past its time; and one that waits."""
        for _ in range(2):
            self.tarry.publish("orders", 1)
        self.tarry.ack(self.claimed("orders"))
        self.tarry.publish("orders", 2, delay="50ms")
        for _ in range(2):
            self.tarry.fail(self.claimed("orders"), reason="no")
        self.tarry.cancel(self.tarry.publish("orders", 3, delay="1h").id)
        self.tarry.publish("orders", 4, delay="1h")
        self.tarry.put_schedule("daily", topic="orders", body="note", cron="0 9 * * *", timezone="UTC")
        self.tarry.run_schedule("daily")
        self.tarry.put_group("short", "billing", start="earliest")
        self.tarry.publish("short", 5, expires_at=datetime.now(UTC) + timedelta(milliseconds=200))
        self.seen("tarry_messages_cancelled_total", "tarry_messages_dead_total", "tarry_messages_retried_total")

    def posts(self) -> None:
        """One that fails, and then is taken."""
        with receiver() as endpoint:
            endpoint.answer = lambda one: head(500) if one.headers["tarry-attempt"] == "1" else OK
            self.tarry.put_push("posted", "shop", f"{endpoint.url}/in", SECRET)
            self.tarry.publish("posted", 6)
            self.seen("tarry_push_sent_total", "tarry_push_failed_total", "tarry_push_broken")

    def guarded(self) -> None:
        """What its guard does not let go."""
        self.tarry.publish("orders", 7, key="nobody", delay="50ms", guard="unpaid")
        self.seen("tarry_messages_suppressed_total")

    def outage(self) -> None:
        """The database is away for a moment."""
        self.door.shut()
        self.seen("tarry_db_errors_total")
        self.door.open()
        wait_until(lambda: self.tarry.ready())

    def expired(self) -> None:
        """What was past its time before anybody asked for it."""
        wait_until(lambda: self.tarry.claim("short", "billing") is None and "expired" in self.tarry.metrics())


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory, mariadb_server: str) -> Iterator[Scrape]:
    """All that servers have told in it."""
    from support import servers

    folder = tmp_path_factory.mktemp("day")
    with servers.database(mariadb_server) as dsn, served(folder) as server:
        yield a_day(server, dsn, folder)


def a_day(server: Served, dsn: str, folder: Path) -> Scrape:
    parts = urlsplit(dsn)
    with connect_raw(dsn) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE house_orders (number VARCHAR(64) NOT NULL, status VARCHAR(20), KEY (number))")
    (folder / "tarry.toml").write_text(
        "[guards.unpaid]\n"
        f'dsn = "{dsn}"\ntable = "{parts.path[1:]}.house_orders"\n'
        'key_column = "number"\ncondition = "status = \'UNPAID\'"\n'
    )
    door = Gate(parts.hostname or "127.0.0.1", parts.port or 3306)
    url = f"http://127.0.0.1:{free_port()}"
    through = parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{door.port}").geturl()
    server.environment |= {
        "TARRY_PUSH_ALLOW": "127.0.0.1/32",
        "TARRY_LADDER": "50ms",
        "TARRY_RETENTION": "1ms",
        "TARRY_HISTORY_RETENTION": "1ms",
    }
    flags = ("--dsn", through, "--processes", "2", "--listen", url.removeprefix("http://"))
    server.start(*flags)
    with Tarry(url) as tarry:
        day = Day(server, url, tarry, door)
        day.messages()
        day.posts()
        day.guarded()
        day.expired()
        day.outage()
        told = scrape(url)
    assert server.stop() == 0
    server.start(*flags)
    wait_until(lambda: set(scrape(url)) >= MEASURED)
    for name, series in scrape(url).items():
        told.setdefault(name, []).extend(series)
    assert server.stop() == 0
    door.close()
    return told


def selectors(expression: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Each name, with what is wanted of its labels."""
    for name, inner in _SELECTOR.findall(re.sub(r"\b(?:by|on) \([^)]*\)", "", expression)):
        yield name, re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', inner)


def kept(expression: str) -> set[str]:
    """The labels by which it adds up, or joins."""
    return {
        label for inner in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in re.findall(r"\w+", inner)
    }


@pytest.mark.parametrize("asked", ALL, ids=lambda asked: f"{asked.place}: {asked.expression}"[:60])
def test_a_server_tells_what_is_asked_for(day: Scrape, asked: Asked) -> None:
    names = [*selectors(asked.expression)]
    assert names or asked.place == "TarryDown"
    for name, wanted in names:
        series = [one for one in day.get(name, []) if all(agrees(one, *want) for want in wanted)]
        assert series, f"{name} with {wanted} is nowhere in {day.get(name)}"
        assert kept(asked.expression) <= set.intersection(*(set(one) for one in series)) | OF_THE_SCRAPE


def agrees(labels: dict[str, str], label: str, operator: str, value: str) -> bool:
    """Whether a series is chosen, so far as that hangs on what the server tells. Which of a label's values there are
    today is of the day, unless a single one is wanted."""
    if label in OF_THE_SCRAPE:
        return True
    return label in labels and (operator != "=" or labels[label] == value)


def test_it_can_fail() -> None:
    (name, wanted), other = selectors('sum by (a) (tarry_a{b="c",job="d"}) / tarry_b_total')
    assert (name, wanted, other) == ("tarry_a", [("b", "=", "c"), ("job", "=", "d")], ("tarry_b_total", []))
    assert agrees({"b": "c"}, *wanted[0])
    assert not agrees({"b": "d"}, *wanted[0])
    assert not agrees({}, "b", "=~", ".*")
    assert kept("sum by (a, le) (x) and on (b) y") == {"a", "le", "b"}


def test_prometheus_reads_every_expression(tmp_path: Path) -> None:
    """Grafana puts times in place of its own words before it asks."""
    if shutil.which("promtool") is None:
        skip_or_fail("no promtool on PATH")
    rules = [
        {
            "record": f"asked:{number}",
            "expr": asked.expression.replace("$__rate_interval", "1m").replace("$__range", "1h"),
        }
        for number, asked in enumerate(ALL)
    ]
    check = tmp_path / "asked.yaml"

    def promtool() -> subprocess.CompletedProcess[str]:
        check.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}), "utf-8")
        command = ["promtool", "check", "rules", str(check)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    done = promtool()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALL)} rules found" in done.stdout
    rules.append({"record": "asked:wrong", "expr": "sum by (topic) (tarry_messages_published_total["})
    assert promtool().returncode != 0
