"""What is served as it lies there, and whose it is."""

import re
from hashlib import sha256
from pathlib import Path

import httpx

from tarry.service.dashboard import dashboard

STATIC = Path(dashboard.__file__).parent / "static"


def test_files_of_others_are_as_they_were() -> None:
    told = dict(
        re.findall(r"^\| (\S+\.(?:js|css)) \|.*\| ([0-9a-f]{64}) \|$", (STATIC / "vendor/README.md").read_text(), re.M)
    )
    there = {path.name: sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor").glob("*.*s*")}
    assert told == {name: digest for name, digest in there.items() if name.endswith((".js", ".css"))}
    assert len(told) == 4


def test_nothing_is_asked_of_another_host() -> None:
    for path in [*STATIC.glob("*.*"), *(STATIC.parent / "templates").glob("*.j2")]:
        others = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", path.read_text())
        assert [one for one in others if one != "http://www.w3.org"] == [], path


async def test_a_browser_that_has_it_gets_no_more(browser: httpx.AsyncClient) -> None:
    first = await browser.get("/ui/static/dashboard.css")
    assert (first.status_code, first.headers["content-type"]) == (200, "text/css; charset=utf-8")
    again = await browser.get("/ui/static/dashboard.css", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert (await browser.get("/ui/static/vendor/README.md")).status_code == 404
