"""Metrics: the contract's names, and labels that stay few."""

import re

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tarry import __version__
from tarry.service import metrics as module
from tarry.service.metrics import Metrics


def value(metrics: Metrics, line: str) -> float:
    found = re.search(rf"^{re.escape(line)} (\S+)$", metrics.text().decode(), re.MULTILINE)
    assert found, metrics.text().decode()
    return float(found[1])


def test_everything_is_counted_under_the_contracts_name() -> None:
    metrics = Metrics()
    metrics.published("orders", 3)
    metrics.cancelled("orders", 1)
    metrics.of_group("delivered", "orders", "billing", 2)
    metrics.of_group("acked", "orders", "billing", 2)
    metrics.of_group("retried", "orders", "billing", 1)
    metrics.of_group("dead", "orders", "billing", 1)
    metrics.lateness("orders", [0.0004, 7200])
    metrics.lateness("orders", [0.001, 0.0011])
    metrics.promote_batch(0.004)
    metrics.lease_lost(2)
    metrics.fenced_write()
    metrics.db_error(1213)
    assert value(metrics, 'tarry_messages_published_total{topic="orders"}') == 3
    assert value(metrics, 'tarry_messages_cancelled_total{topic="orders"}') == 1
    for verb, count in (("delivered", 2), ("acked", 2), ("retried", 1), ("dead", 1)):
        assert value(metrics, f'tarry_messages_{verb}_total{{group="billing",topic="orders"}}') == count
    lateness = "tarry_delivery_lateness_seconds"
    assert value(metrics, f'{lateness}_bucket{{le="0.001",topic="orders"}}') == 2
    assert value(metrics, f'{lateness}_bucket{{le="3600.0",topic="orders"}}') == 3
    assert value(metrics, f'{lateness}_bucket{{le="+Inf",topic="orders"}}') == 4
    assert value(metrics, f'{lateness}_count{{topic="orders"}}') == 4
    assert value(metrics, f'{lateness}_sum{{topic="orders"}}') == pytest.approx(7200.0025)
    assert value(metrics, 'tarry_promote_batch_duration_seconds_bucket{le="0.005"}') == 1
    assert value(metrics, "tarry_lease_lost_total") == 2
    assert value(metrics, "tarry_fenced_writes_total") == 1
    assert value(metrics, 'tarry_db_errors_total{code="1213"}') == 1
    assert f'version="{__version__}"' in metrics.text().decode()
    assert value(metrics, "tarry_wheel_entries") == 0


def test_requests_have_a_histogram_by_class_of_status() -> None:
    metrics = Metrics()
    route = "/v1/messages/{id}"
    for status, seconds in ((200, 0.0005), (202, 0.3), (404, 45)):
        metrics.http_request(route, "GET", status, seconds)
    metrics.http_request(route, "BREW", 405, 0)
    name, of = "tarry_http_request_duration_seconds", f'method="GET",route="{route}"'
    text = metrics.text().decode()
    told = {
        (sample.labels["method"], sample.labels["status"], sample.name.removeprefix(name), sample.labels.get("le")): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        if family.name == name
        for sample in family.samples
    }
    assert of in text
    assert [told["GET", "2xx", "_bucket", bound] for bound in ("0.001", "0.2", "0.5", "+Inf")] == [1, 1, 2, 2]
    assert told["GET", "2xx", "_sum", None] == pytest.approx(0.3005)
    assert told["GET", "2xx", "_count", None] == 2
    assert (told["GET", "4xx", "_bucket", "30.0"], told["GET", "4xx", "_bucket", "+Inf"]) == (0, 1)
    assert told["(other)", "4xx", "_count", None] == 1
    assert value(metrics, f'tarry_http_requests_total{{{of},status="202"}}') == 1


def test_no_series_tells_when_another_was_made() -> None:
    metrics = Metrics()
    metrics.published("orders", 3)
    metrics.promote_batch(0.004)
    assert "_created" not in metrics.text().decode()
    assert "_created" in generate_latest(metrics.registry).decode(), "the switch of the whole process is left alone"


def test_two_servers_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.fenced_write()
    assert (value(one, "tarry_fenced_writes_total"), value(other, "tarry_fenced_writes_total")) == (1, 0)


def test_names_beyond_the_bound_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NAMES", 3)
    metrics = Metrics()
    for number in range(5):
        metrics.published(f"t{number}", 1)
        metrics.of_group("acked", f"t{number}", "g", 1)
    text = metrics.text().decode()
    assert 't0"' in text
    assert 't4"' not in text
    assert value(metrics, 'tarry_messages_published_total{topic="(other)"}') == 3
    assert value(metrics, 'tarry_messages_acked_total{group="(other)",topic="(other)"}') == 4


def test_who_has_nothing_waiting_any_more_has_no_series() -> None:
    metrics = Metrics()
    metrics.waiting({"orders": (3, 1), "mails": (1, 0)}, {("orders", "billing"): 7, ("mails", "post"): 1})
    assert value(metrics, 'tarry_pending_messages{state="retrying",topic="orders"}') == 1
    metrics.waiting({"orders": (2, 0)}, {("orders", "billing"): 5})
    assert value(metrics, 'tarry_group_lag_messages{group="billing",topic="orders"}') == 5
    assert "mails" not in metrics.text().decode()
    metrics.forget("orders")
    assert "orders" not in metrics.text().decode()


def test_what_waits_has_series_though_others_were_counted_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NAMES", 1)
    metrics = Metrics()
    metrics.published("old", 1)
    metrics.waiting({"young": (1, 0)}, {("young", "billing"): 7})
    assert value(metrics, 'tarry_group_lag_messages{group="billing",topic="young"}') == 7
