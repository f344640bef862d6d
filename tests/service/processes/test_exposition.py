"""One text of many: read by Prometheus's own parser, with nothing lost and nothing twice."""

from prometheus_client.parser import text_string_to_metric_families

from tarry.service.metrics import Metrics
from tarry.service.processes.exposition import merge


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    names: set[str] = set()
    for family in text_string_to_metric_families(text):
        assert family.name not in names, f"{family.name} is told twice"
        names.add(family.name)
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def of(number: int, key: tuple[str, frozenset[tuple[str, str]]]) -> tuple[str, frozenset[tuple[str, str]]]:
    return key[0], key[1] | {("process", str(number))}


def metrics(messages: int) -> Metrics:
    made = Metrics()
    made.published('odd "topic" {a,b} \\ é', messages)
    made.lateness("orders", [0.1] * messages)
    made.http_request("/v1/topics", "GET", 200, 0.004)
    return made


def test_each_series_is_told_with_its_process() -> None:
    one, two = metrics(3), metrics(5)
    two.cancelled("orders", 2)  # a series that the other has not
    texts = {2: two.text().decode(), 1: one.text().decode()}
    merged = samples(merge(texts))
    whole = {"tarry_build_info"}
    for number, text in texts.items():
        for key, value in samples(text).items():
            assert merged.pop(key if key[0] in whole else of(number, key), value) == value
    up = {("tarry_process_up", frozenset({("process", str(number))})): 1 for number in (1, 2)}
    assert merged == up


def test_what_one_tells_for_all_is_told_once() -> None:
    one, two = Metrics(), Metrics()
    one.waiting({}, {("orders", "billing"): 9})
    two.waiting({"orders": (4, 1)}, {("orders", "billing"): 10})  # it had the duties a moment ago
    merged = samples(merge({1: one.text().decode(), 2: two.text().decode()}))
    assert merged["tarry_group_lag_messages", frozenset({("topic", "orders"), ("group", "billing")})] == 10
    pending = {key: value for key, value in merged.items() if key[0] == "tarry_pending_messages"}
    assert sorted(pending.values()) == [1, 4]


def test_who_did_not_answer_is_told_to_be_away() -> None:
    merged = samples(merge({1: metrics(1).text().decode(), 2: None}))
    assert merged["tarry_process_up", frozenset({("process", "1")})] == 1
    assert merged["tarry_process_up", frozenset({("process", "2")})] == 0
    assert not [key for key in merged if ("process", "2") in key[1] and key[0] != "tarry_process_up"]
