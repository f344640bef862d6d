"""Reports of the pipeline: found in their folder, the latest first, and nothing else of it."""

import os
from pathlib import Path

import httpx
import pytest

from support.in_one import in_one
from tarry.service.settings import Settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    for number, name in enumerate(("monday", "tuesday")):
        (folder / name).mkdir(parents=True)
        (folder / name / "index.html").write_text(f"<title>{name}</title>")
        os.utime(folder / name / "index.html", (1000 + number, 1000 + number))
    (folder / "empty").mkdir()
    (folder / "b ad").mkdir()
    (folder / "b ad" / "index.html").write_text("no")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "index.html").write_text("not for you")
    (folder / "way-out").symlink_to(tmp_path / "secret")
    return folder


@pytest.fixture
def settings(folder: Path) -> Settings:
    return Settings(reports=str(folder))


async def test_the_latest_first(client: httpx.AsyncClient) -> None:
    told = (await client.get("/v1/reports")).json()
    assert told == {
        "folder": True,
        "reports": [
            {"report": "tuesday", "made_at": "1970-01-01T00:16:41.000Z"},
            {"report": "monday", "made_at": "1970-01-01T00:16:40.000Z"},
        ],
    }


async def test_a_page_has_no_scripts(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/reports/monday")
    assert response.text == "<title>monday</title>"
    assert response.headers["content-security-policy"].startswith(
        "sandbox allow-downloads allow-same-origin; default-src 'none'"
    )
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["empty", "nobody", "way-out"])
async def test_what_is_none(client: httpx.AsyncClient, name: str) -> None:
    response = await client.get(f"/v1/reports/{name}")
    assert (response.status_code, response.json()["type"]) == (404, "/problems/unknown-report")


@in_one("name", ["..", "%2e%2e", "..%2fsecret", "b%20ad", "monday%2findex.html"])
async def test_a_name_leads_nowhere_else(client: httpx.AsyncClient, name: str) -> None:
    response = await client.get(f"/v1/reports/{name}")
    assert response.status_code in (400, 404)
    assert "not for you" not in response.text


async def test_a_report_may_lie_in_the_folder_itself(client: httpx.AsyncClient, folder: Path) -> None:
    (folder / "index.html").write_text("own")
    assert (await client.get("/v1/reports/reports")).text == "own"


async def test_a_page_leads_to_its_figures(client: httpx.AsyncClient, folder: Path) -> None:
    (folder / "monday" / "figures").mkdir()
    (folder / "monday" / "figures" / "rate.parquet").write_bytes(b"PAR1")
    (folder / "monday" / "index.html").write_text('<a href="#rate">see</a><a href="figures/rate.parquet">Parquet</a>')
    page = await client.get("/v1/reports/monday")
    _, _, lead = page.text.rpartition('href="')
    figure = await client.get(str(page.url.join(lead.partition('"')[0])))
    assert (figure.status_code, figure.content) == (200, b"PAR1")
    assert figure.headers["content-disposition"] == 'attachment; filename="monday-rate.parquet"'
    assert 'href="#rate"' in page.text


@in_one(
    "path",
    ["monday/figures/rate.json", "nobody/figures/rate.json", "monday/figures/index.html", "way-out/figures/x.json"],
)
async def test_no_such_figure(client: httpx.AsyncClient, folder: Path, path: str) -> None:
    (folder / "monday" / "figures").mkdir(exist_ok=True)
    (folder / "monday" / "figures" / "index.html").write_text("not for you")
    response = await client.get(f"/v1/reports/{path}")
    assert (response.status_code, response.json()["type"]) == (404, "/problems/unknown-report")


async def test_a_figure_leads_nowhere_else(client: httpx.AsyncClient, folder: Path) -> None:
    (folder.parent / "secret" / "x.json").write_text("not for you")
    (folder / "monday" / "figures").symlink_to(folder.parent / "secret")
    for path in ("monday/figures/x.json", "monday/figures/..%2f..%2fsecret%2fx.json", "monday/figures/%2e%2e"):
        response = await client.get(f"/v1/reports/{path}")
        assert response.status_code in (400, 404)
        assert "not for you" not in response.text
