"""Metrics: the contract's names, and labels that stay few."""

import re

import pytest

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
