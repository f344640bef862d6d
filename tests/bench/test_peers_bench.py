"""The bench of the peers: it runs with Tarry and whoever is installed of the small ones; its table tells the truth."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

from support.benches import bench
from tarry.bench.peers.beanstalkd import Beanstalkd
from tarry.bench.peers.ours import TarryOnSQLite
from tarry.bench.peers.peer import Peer
from tarry.bench.peers.table import markdown
from tarry.bench.report import Figures


def test_it_runs() -> None:
    small = ("--scale", "0.01", "--callers", "2", "--works", "a", "c", "d")
    done = bench("peers", *small, "--peers", "tarry-sqlite", "beanstalkd")
    assert done.returncode == 0, done.stderr
    text, _, table = done.stdout.partition("\n| ")
    lines = [json.loads(line) for line in text.splitlines()]
    publish, drain, schedule = (line for line in lines if line.get("peer") == "tarry-sqlite")
    assert publish["per_s_2"] > 0
    assert (drain["of"], drain["missing"], drain["doubled"]) == (502, 0, 0)
    assert (schedule["lost"], schedule["first_s"] > 0) == (0, True)
    assert table.endswith("\n- None was early, doubled or lost.\n")
    there = shutil.which("beanstalkd") is not None and find_spec("greenstalk") is not None
    assert ("beanstalkd is left out; it wants: " in done.stderr) != there


def test_a_loss_is_printed_like_a_win_and_so_is_a_failure() -> None:
    peers: dict[str, Peer] = {"tarry-sqlite": TarryOnSQLite(Path()), "beanstalkd": Beanstalkd(Path())}
    calm = {"missing": 0, "doubled": 0, "early": 0}
    found: dict[str, dict[str, list[Figures]]] = {
        "c": {"tarry-sqlite": [{"per_s": 1000, **calm}], "beanstalkd": [{"per_s": 4000, **calm, "doubled": 3}]},
        "e": {"tarry-sqlite": [{"all_s": 0.5, **calm}], "beanstalkd": [{"all_s": 2.0, **calm, "missing": 7}]},
        "d": {"tarry-sqlite": [], "beanstalkd": []},
    }
    lines = markdown(found, peers, [1], dict.fromkeys(peers, "1.0")).splitlines()
    assert lines[0] == "| | tarry-sqlite | beanstalkd | tarry-sqlite to the best peer |"
    assert "| c. handed out and acked a second | 1,000 | 4,000 | 0.25 |" in lines
    assert "| e. a burst: the last is handed out after, s | 0.50 | > 2.00 | 4.00 |" in lines
    assert "| d. scheduled a second | failed | failed | |" in lines
    assert lines[-2:] == [
        "- beanstalkd, work c: 3 doubled.",
        "- beanstalkd, work e: 7 not handed out in time.",
    ]


def test_one_that_did_not_start_has_its_line() -> None:
    peers: dict[str, Peer] = {"tarry-sqlite": TarryOnSQLite(Path()), "beanstalkd": Beanstalkd(Path())}
    found: dict[str, dict[str, list[Figures]]] = {"c": {"tarry-sqlite": [{"per_s": 1000}], "beanstalkd": []}}
    lines = markdown(found, peers, [1], {"tarry-sqlite": "1.0"}).splitlines()
    assert any(line.startswith("- **beanstalkd** (it did not start): ") for line in lines)
