"""Keys at the front door of a real server, and where it listens."""

import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.certificates import write_certificates
from support.serving import Served, served
from support.waiting import wait_until
from tarry.service.demo.server_process import free_port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as server:
        yield server


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def wait_for_status(url: str, key: str, wanted: int) -> None:
    wait_until(lambda: httpx.get(url, headers=bearer(key)).status_code == wanted, 5)


def test_a_running_server_knows_of_a_key_and_of_its_end(server: Served) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    server.start("--listen", url.removeprefix("http://"))
    assert httpx.get(f"{url}/v1/topics").status_code == 200
    key = server.key("reader", "read:*")
    wait_for_status(f"{url}/v1/topics", "nobody", 401)
    other = server.key("other", "read:*")
    wait_for_status(f"{url}/v1/topics", other, 200)
    assert server.tarry("keys", "revoke", "reader").returncode == 0
    wait_for_status(f"{url}/v1/topics", key, 401)
    assert httpx.get(f"{url}/v1/topics", headers=bearer(other)).status_code == 200
    assert httpx.post(f"{url}/v1/topics/a/messages", json={"body": 1}, headers=bearer(other)).status_code == 403
    assert httpx.get(f"{url}/readyz").status_code == httpx.get(f"{url}/livez").status_code == 200
    for token in (key, other):
        assert token not in server.log
    assert server.stop() == 0


def test_beyond_its_machine_it_serves_with_a_key_alone(server: Served) -> None:
    port = free_port()
    server.start("--listen", f"0.0.0.0:{port}")
    assert server.process.wait(30) == 1
    assert "tarry keys create" in server.log
    assert "--insecure-listen" in server.log
    key = server.key("reader", "read:*")
    server.start("--listen", f"0.0.0.0:{port}")
    assert httpx.get(f"http://127.0.0.1:{port}/v1/topics").status_code == 401
    assert httpx.get(f"http://127.0.0.1:{port}/v1/topics", headers=bearer(key)).status_code == 200
    assert server.stop() == 0
    assert server.tarry("keys", "revoke", "reader").returncode == 0
    server.start("--listen", f"0.0.0.0:{port}")
    assert httpx.get(f"http://127.0.0.1:{port}/v1/topics", headers=bearer(key)).status_code == 401
    assert "nobody_gets_in" in server.log
    assert server.stop() == 0


def test_or_when_it_is_told_to(server: Served) -> None:
    port = free_port()
    server.start("--listen", f"0.0.0.0:{port}", "--insecure-listen")
    assert httpx.get(f"http://127.0.0.1:{port}/v1/topics").status_code == 200
    assert "open_to_all" in server.log
    (node,) = httpx.get(f"http://127.0.0.1:{port}/v1/nodes").json()["nodes"]
    assert "0.0.0.0" not in node["url"]
    assert httpx.get(f"{node['url']}/livez").status_code == 200
    server.key("reader", "publish:*")
    wait_for_status(f"http://127.0.0.1:{port}/v1/topics", "nobody", 401)
    assert server.stop() == 0


def test_it_tells_what_it_is_told_to_tell(server: Served) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    server.start("--listen", url.removeprefix("http://"), "--advertise", "http://a.example:8277")
    called = {"Host": "a.example:8277"}
    (node,) = httpx.get(f"{url}/v1/nodes", headers=called).json()["nodes"]
    assert node["url"] == "http://a.example:8277"
    assert httpx.get(f"{url}/v1/nodes", headers={"Host": "b.example"}).status_code == 421


def test_a_unix_socket(server: Served, tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    server.start("--listen", f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
        assert client.post("/v1/topics/a/messages", json={"body": 1}).status_code == 201
        assert client.get("/v1/topics").json()["topics"][0]["topic"] == "a"
    second = server.tarry("serve", "--listen", f"unix:{path}", "--dsn", f"sqlite:///{tmp_path}/other.db")
    assert second.returncode == 1
    assert f"another server listens on {path}" in second.stderr
    server.kill()
    assert path.is_socket()
    server.start("--listen", f"unix:{path}")
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
        assert client.get("/v1/topics").status_code == 200
    assert server.stop() == 0
    assert list(tmp_path.glob("*.sock*")) == list(tmp_path.glob(".*")) == []


def test_a_path_that_is_no_socket(server: Served, tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("text")
    done = server.tarry("serve", "--listen", f"unix:{path}")
    assert done.returncode == 1
    assert "is no socket" in done.stderr
    assert path.read_text() == "text"


def test_a_wrong_certificate_is_told_at_the_start(server: Served, tmp_path: Path) -> None:
    write_certificates(tmp_path)
    done = server.tarry("serve", "--tls-cert", "server.pem", "--tls-key", "nowhere.pem")
    assert done.returncode == 1
    assert "nowhere.pem: No such file" in done.stderr
    assert server.tarry("serve", "--tls-cert", "server.pem").returncode == 2
