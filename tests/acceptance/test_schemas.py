"""The files to deploy by, held against the schemas of those who read them."""

import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

FILES = Path(__file__).parents[2] / "docs" / "operations"
MANIFEST: list[dict[str, Any]] = [*yaml.safe_load_all((FILES / "kubernetes.yaml").read_text("utf-8"))]


@pytest.mark.parametrize("version", ["1.25", "1.31", "1.37"])
@pytest.mark.parametrize("document", MANIFEST, ids=[one["kind"] for one in MANIFEST])
def test_kubernetes_takes_the_manifest(document: dict[str, Any], version: str) -> None:
    """Strictly: what the schema does not know is an error. An older version than it has is not passed over."""
    assert kubernetes_validate.validate(document, version, strict=True) == version


@pytest.mark.parametrize("wrong", [{"replica": 2}, {"replicas": "two"}])
def test_it_can_fail(wrong: dict[str, Any]) -> None:
    document = deepcopy(next(one for one in MANIFEST if one["kind"] == "Deployment"))
    document["spec"] |= wrong
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, "1.31", strict=True)


def compose_takes(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_compose_takes_its_file(tmp_path: Path) -> None:
    done = compose_takes(FILES / "compose.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((FILES / "compose.yaml").read_text("utf-8").replace("stop_grace_period", "grace_period"), "utf-8")
    done = compose_takes(wrong)
    assert done.returncode == 1
    assert "'grace_period' was unexpected" in done.stdout
