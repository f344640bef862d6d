"""What operators are given beside the program: alerts, their runbook, the dashboard, the files to deploy by.

Each is held against the program: settings, paths and users are ones that it has; metrics and labels are those of a
server at work in `test_scrape.py`.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.servers import skip_or_fail
from tarry.service.http.routes import OPERATIONS
from tarry.service.settings import Settings

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs" / "operations"
RUNBOOK = (ROOT / "docs" / "how-to" / "runbook.md").read_text("utf-8")


def expressions() -> Iterator[tuple[str, str]]:
    """Where it stands, and what Prometheus is asked."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in json.loads((FILES / "grafana.json").read_text("utf-8"))["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FILES / "alerts.yaml").read_text("utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_routes_in_expressions_are_routes() -> None:
    paths = {operation.path for operation in OPERATIONS}
    for place, expression in expressions():
        for route in re.findall(r'route="([^"]*)"', expression):
            assert route in paths, place
        for pattern in re.findall(r'route!~"([^"]*)"', expression):
            assert any(re.fullmatch(pattern, path) for path in paths), place


def test_every_alert_has_its_section_in_the_runbook() -> None:
    headings = re.findall(r"^## (.+)$", RUNBOOK, re.MULTILINE)
    names = [rule["alert"] for rule in rules()]
    assert headings == names
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"docs/how-to/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("page", "warn")
    for section in re.split(r"^## .+$", RUNBOOK, flags=re.MULTILINE)[1:]:
        assert [word for word in ("**Means:**", "**Look:**", "**Fix:**") if word not in section] == []


@pytest.mark.parametrize("command", [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")])
def test_prometheus_takes_the_alerts(command: tuple[str, ...]) -> None:
    if shutil.which("promtool") is None:
        skip_or_fail("no promtool on PATH")
    done = subprocess.run(["promtool", *command], cwd=FILES, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_has_no_panel_over_another() -> None:
    board = json.loads((FILES / "grafana.json").read_text("utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


# The files to deploy by


def settings_of(environment: dict[str, Any]) -> dict[str, str]:
    """Those of `TARRY_*`; each is one that the program has."""
    own = {name: str(value) for name, value in environment.items() if name.startswith("TARRY_")}
    names = {f"TARRY_{name.upper()}" for name, _, _ in Settings().listed()}
    assert {name.removesuffix("_FILE") for name in own} <= names
    return own


def grace() -> float:
    """Seconds from SIGTERM to the end."""
    return Settings().shutdown_grace / 1000


def test_the_image() -> None:
    text = (FILES / "Containerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    user = lines.index("USER 10001")
    assert lines.index('ENTRYPOINT ["tarry"]') > user, "no shell, and no rights, when it runs"
    assert 'CMD ["serve"]' in lines
    assert "STOPSIGNAL SIGTERM" in lines
    assert "ARG BASE=python:3.12-slim-bookworm" in lines
    assert text.count("FROM ${BASE}") == 2
    assert "http://127.0.0.1:8277/readyz" in text
    environment = dict(re.findall(r"(TARRY_\w+)=(\S+)", text))
    assert settings_of(environment) == {"TARRY_LISTEN": "0.0.0.0:8277", "TARRY_LOG_FORMAT": "json"}
    assert (ROOT / ".make" / "lock-server.txt").exists()


def test_compose() -> None:
    document = yaml.safe_load((FILES / "compose.yaml").read_text("utf-8"))
    servers = {name: one for name, one in document["services"].items() if "build" in one}
    assert set(servers) == {"migrate", "a", "b"}
    for name, one in servers.items():
        settings = settings_of(one["environment"])
        assert settings["TARRY_DSN_FILE"] == "/run/secrets/dsn"
        assert settings.get("TARRY_NODE", "migrate") == name
        assert settings.get("TARRY_ADVERTISE", "http://migrate:8277") == f"http://{name}:8277"
        assert set(one["secrets"]) <= set(document["secrets"])
        build = one["build"]
        assert (FILES / build["context"] / build["dockerfile"]).resolve() == FILES / "Containerfile"
        assert int(one["stop_grace_period"].removesuffix("s")) > grace()
        assert one["cap_drop"] == ["ALL"]
        assert one["read_only"]
    assert servers["migrate"]["command"] == ["migrate"]
    assert {name: list(one["depends_on"]) for name, one in servers.items()} == {
        "migrate": ["database"],
        "a": ["migrate"],
        "b": ["migrate"],
    }
    hosts = settings_of(servers["a"]["environment"])["TARRY_HOSTS"].split(",")
    assert {"a", "b"} <= set(hosts), "by these names they call each other"


def test_kubernetes() -> None:
    documents = {one["kind"]: one for one in yaml.safe_load_all((FILES / "kubernetes.yaml").read_text("utf-8"))}
    assert set(documents) == {"Deployment", "Service", "PodDisruptionBudget"}
    deployment = documents["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels == documents["Service"]["spec"]["selector"]
    assert documents["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert documents["PodDisruptionBudget"]["spec"]["minAvailable"] < deployment["replicas"]
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    (container,) = pod["containers"]
    paths = {operation.path for operation in OPERATIONS}
    probes = {name: one["httpGet"]["path"] for name, one in container.items() if name.endswith("Probe")}
    assert probes == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert set(probes.values()) <= paths
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > pause + grace()
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    for one in (container, *pod["initContainers"]):
        settings_of({variable["name"]: variable.get("value", "") for variable in one["env"]})
        assert {mount["name"] for mount in one["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}
        assert one["securityContext"]["readOnlyRootFilesystem"]
        assert not one["securityContext"]["allowPrivilegeEscalation"]
    assert container["ports"][0]["containerPort"] == 8277
    hosts = next(one["value"] for one in container["env"] if one["name"] == "TARRY_HOSTS")
    assert documents["Service"]["metadata"]["name"] in hosts.split(",")


def test_the_unit_gives_it_time_to_stop() -> None:
    text = (FILES / "tarry.service").read_text("utf-8")
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert int(seconds) > grace()
