"""MySQL Group Replication: a primary that lost its majority, and members that are not in their group. Three real
servers, none of which is asked to write what the group would not have."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.commands import doctor
from support.replication_group import Group, replication_group
from support.server import client_of, start_server
from support.servers import NoServerError, skip_or_fail
from support.stores import migrate
from support.waiting import wait_until
from tarry.service.demo.server_process import ServerProcess

SHOWN = "GRANT SELECT ON performance_schema.replication_group_members TO tarry@'%'"
HIDDEN = "REVOKE SELECT ON performance_schema.replication_group_members FROM tarry@'%'"


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    try:
        with replication_group() as group:
            yield group
    except NoServerError as error:
        skip_or_fail(str(error))


def primary_of(group: Group) -> int:
    (primary,) = (one for one in range(3) if group.ask(one, "SELECT @@read_only") == [(0,)])
    return primary


@pytest.fixture
def told(group: Group) -> Group:
    """Tarry's user may see who is in the group."""
    group.settle()
    group.ask(primary_of(group), SHOWN)
    return group


@pytest.fixture
def untold(told: Group) -> Group:
    told.ask(primary_of(told), HIDDEN)
    return told


def publish(server: ServerProcess) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/topics/orders/messages", json={"body": "x"}, timeout=60)


def goes_on(server: ServerProcess) -> None:
    """Publishes again, with no restart and nobody's help."""
    wait_until(lambda: publish(server).status_code == 201, 120)


def log(server: ServerProcess, event: str) -> str:
    return "\n".join(line for line in server.log.read_text().splitlines() if json.loads(line)["event"] == event)


@pytest.mark.long
def test_a_majority_that_is_lost_and_comes_back(told: Group, tmp_path: Path) -> None:
    with start_server(tmp_path, told.dsn) as server, client_of(server) as tarry:
        kept = tarry.publish("orders", "kept")
        primary = primary_of(told)
        with told.frozen({0, 1, 2} - {primary}):
            wait_until(lambda: "read-only" in publish(server).text, 120)
            answer = publish(server)
            assert answer.status_code == 503
            assert answer.json()["executed"] is False
            assert httpx.get(f"{server.url}/readyz").status_code == 503
            assert "its group has no majority: of 3 members it reaches 1" in log(server, "store_away")
            ((state, detail),) = ((state, detail) for check, state, detail in doctor(told.dsn) if check == "hosts")
            assert state == "wrong"
            assert "no majority" in detail
        told.settle()
        goes_on(server)
        wait_until(lambda: httpx.get(f"{server.url}/readyz").status_code == 200)
        claim = tarry.claim("orders", "billing", max=100)
        assert claim is not None
        assert kept.id in [message.id for message in claim.messages]


def test_no_member_outside_of_its_group_is_written_to(told: Group, tmp_path: Path) -> None:
    """As after a restart without `group_replication_start_on_boot`: what it takes the group never gets."""
    migrate(told.dsn)
    alone = (primary_of(told) + 1) % 3
    before = told.ask(alone, "SELECT COUNT(*) + 1 FROM message")
    told.ask(alone, "STOP GROUP_REPLICATION")
    try:
        assert "it is OFFLINE in its group" in str(doctor(told.dsn_of(alone))), "and not that it is read-only"
        told.ask(alone, "SET GLOBAL super_read_only = 0", "SET GLOBAL read_only = 0")
        first = told.dsn_of(alone, *(one for one in range(3) if one != alone))
        with start_server(tmp_path, first) as server:
            assert publish(server).status_code == 201
        assert told.ask((alone + 2) % 3, "SELECT COUNT(*) FROM message") == before, "the group has it"
        assert "it is OFFLINE in its group" in str(doctor(told.dsn_of(alone)))
    finally:
        told.ask(alone, "SET GLOBAL super_read_only = 1", "START GROUP_REPLICATION")
        told.settle()


def test_the_doctor_tells_of_the_group(told: Group) -> None:
    found = [(state, detail) for check, state, detail in doctor(told.dsn) if check == "group"]
    state, detail = found[0]
    assert state == "ok"
    for port in told.ports:
        assert f"127.0.0.1:{port} " in detail
    assert detail.count("PRIMARY") == 1 + detail.count("BEFORE_ON_PRIMARY_FAILOVER")
    assert [detail.split()[0] for state, detail in found[1:]] == ["group_replication_unreachable_majority_timeout"]


def test_the_doctor_tells_of_a_right_that_is_missing(untold: Group) -> None:
    found = [detail for check, state, detail in doctor(untold.dsn) if (check, state) == ("group", "note")]
    assert any("GRANT SELECT ON performance_schema.replication_group_members" in detail for detail in found)


@pytest.mark.long
def test_another_primary_is_followed(told: Group, tmp_path: Path) -> None:
    """Its machine stands still, and goes on when another has taken over."""
    with start_server(tmp_path, told.dsn) as server:
        before = primary_of(told)
        with told.frozen({before}):
            others = {0, 1, 2} - {before}
            wait_until(lambda: any(told.ask(one, "SELECT @@read_only") == [(0,)] for one in others), 120)
            goes_on(server)
        told.settle()
        assert publish(server).status_code == 201
        assert primary_of(told) != before


@pytest.mark.long
def test_every_call_has_an_end_though_nobody_tells_of_the_group(untold: Group, tmp_path: Path) -> None:
    with start_server(tmp_path, untold.dsn) as server:
        with untold.frozen({0, 1, 2} - {primary_of(untold)}):
            assert publish(server).status_code == 503
            assert publish(server).status_code == 503
        untold.settle()
        goes_on(server)
