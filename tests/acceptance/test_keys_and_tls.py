"""The how-to of keys and TLS, as it stands: a server behind nothing, and behind nginx."""

import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.nginx import nginx
from support.serving import Served, served
from support.typist import Typist, blocks_of
from support.waiting import wait_until
from tarry.client import Tarry, TooLarge, Unavailable

BLOCKS = blocks_of("keys-and-tls.md")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator["Reader"]:
    if shutil.which("curl") is None or shutil.which("openssl") is None:
        pytest.skip("no curl or no openssl on PATH")
    with served(tmp_path) as server:
        yield Reader(server)


class Reader(Typist):
    """Of the page, with a server of its own."""

    def __init__(self, server: Served) -> None:
        super().__init__(server.folder, "8277", "8443")
        self.server = server

    def python(self, text: str) -> str:
        trusting = {"SSL_CERT_FILE": str(self.folder / "tarry.pem"), "TARRY_TEST_FORK": "1"}
        return self.run(sys.executable, "-c", self.local(text), **trusting).strip()

    def serve(self, text: str) -> None:
        self.server.start(*self.local(text).split()[2:])


def test_behind_nothing(reader: Reader) -> None:
    making, certificate, using, asking, changing, renewing, _behind_nginx = BLOCKS["sh"]
    reader.sh(making)
    for name in ("shop", "billing", "ops"):
        assert re.fullmatch(r"tarry_[\w-]{43}\n", (reader.folder / f"{name}.key").read_text())
    reader.sh(certificate)
    reader.serve(BLOCKS["serve"][0])
    told = reader.sh(using)
    assert "published" in told
    assert '{"order": 7}' in told
    assert '"topic":"orders"' in reader.sh(asking)
    assert reader.python(BLOCKS["python"][0]) == "published"
    assert "shop-2" in reader.sh(changing)
    url = f"https://localhost:{reader.ports['8277']}/v1/topics/orders/messages"

    def status(name: str) -> int:
        key = (reader.folder / f"{name}.key").read_text().strip()
        return httpx.post(url, json={"body": 1}, headers={"Authorization": f"Bearer {key}"}, verify=False).status_code

    wait_until(lambda: [status(name) for name in ("shop", "shop-2")] == [401, 201], 5)
    reader.environment["SERVER"] = str(reader.server.process.pid)
    reader.sh(renewing)
    wait_until(lambda: "certificate_renewed" in reader.server.log)
    assert reader.server.stop() == 0


def test_behind_nginx(reader: Reader) -> None:
    making, certificate, *_, asking = BLOCKS["sh"]
    reader.sh(making)
    reader.sh(certificate)
    reader.serve(BLOCKS["serve"][1])
    assert (reader.folder / "tarry.sock").stat().st_mode & 0o777 == 0o660
    url = f"https://localhost:{reader.ports['8443']}"
    (page,) = BLOCKS["nginx"]
    with nginx(reader.folder, reader.ports["8443"], page):
        key = (reader.folder / "ops.key").read_text().strip()
        with httpx.Client(verify=False, base_url=url, headers={"Authorization": f"Bearer {key}"}) as client:
            published = client.post(
                "/v1/topics/orders/messages", json={"body": "x" * 200_000}, headers={"Host": "tarry.example"}
            )
            assert published.status_code == 201, published.text
            assert client.get("/v1/topics", headers={"Host": "evil.example"}).status_code == 421
            claim = {"client": "c", "wait": "1s"}
            began = time.monotonic()
            assert client.post("/v1/topics/empty/groups/g/claim", json=claim).json()["messages"] == []
            assert time.monotonic() - began > 0.9
        assert httpx.get(f"{url}/v1/topics", verify=False).status_code == 401
        assert '"topic":"orders"' in reader.sh(asking)
    assert reader.server.stop() == 0


def serve_behind_nginx(reader: Reader) -> str:
    """Its address."""
    making, certificate, *_ = BLOCKS["sh"]
    reader.sh(making)
    reader.sh(certificate)
    reader.serve(BLOCKS["serve"][1])
    return f"https://localhost:{reader.ports['8443']}"


@pytest.mark.timeout(120)
def test_ten_thousand_lines_pass_nginx(reader: Reader) -> None:
    """12 MB, and what the client shares: nginx stops sending a request once its answer has begun."""
    url = serve_behind_nginx(reader)
    (page,) = BLOCKS["nginx"]
    key = (reader.folder / "ops.key").read_text().strip()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/x-ndjson"}
    where = f"{url}/v1/topics/lines/messages"
    with (
        nginx(reader.folder, reader.ports["8443"], page),
        httpx.Client(verify=False, headers=headers, timeout=60) as client,
    ):
        for bytes_, count in ((1180, 10_000), (970, 1000), (970, 1000), (970, 1000)):
            line = b'{"body": "%b"}\n' % (b"x" * bytes_)
            answer = client.post(where, content=line * count)
            assert answer.status_code == 200
            told = answer.text.splitlines()
            assert len(told) == count, told[-1]
            assert '"error"' not in answer.text
    assert reader.server.stop() == 0


def test_what_nginx_answers_itself_is_told_to_be_so(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    url = serve_behind_nginx(reader)
    monkeypatch.setenv("SSL_CERT_FILE", str(reader.folder / "tarry.pem"))
    (page,) = BLOCKS["nginx"]
    assert "client_max_body_size 32m;" in page
    with (
        nginx(reader.folder, reader.ports["8443"], page.replace("client_max_body_size 32m;", "")),
        Tarry(url, key=(reader.folder / "ops.key").read_text().strip(), deadline=0) as tarry,
    ):
        with pytest.raises(TooLarge, match=r"server: nginx.*not Tarry's answer.*client_max_body_size 32m;"):
            tarry.publish("orders", "x" * (1 << 21))
        assert reader.server.stop() == 0
        with pytest.raises(Unavailable, match=r"answered 502 .*server: nginx.*not Tarry's answer.*proxy_pass"):
            tarry.publish("orders", 1)


def test_every_block_is_tried() -> None:
    assert {kind: len(texts) for kind, texts in BLOCKS.items()} == {"sh": 7, "serve": 2, "python": 1, "nginx": 1}
