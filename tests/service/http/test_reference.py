"""/docs: the reference of every call, as a page that asks nobody else for anything."""

import re
from html.parser import HTMLParser

import httpx
import pytest

from tarry.service.http import reference
from tarry.service.http.openapi import document


class _Read(HTMLParser):
    """The page as a browser takes it apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == [], "each tag that is opened is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += f"{data} "


@pytest.mark.slow
async def test_it_tells_every_call_body_and_field(client: httpx.AsyncClient) -> None:
    page = _Read((await client.get("/docs")).text)
    told = (await client.get("/openapi.json")).json()
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    calls = [(path, method, one) for path, of in told["paths"].items() for method, one in of.items()]
    assert ids >= {one["operationId"] for _, _, one in calls}
    assert ids >= {f"body-{name}" for name in told["components"]["schemas"]}
    for path, method, one in calls:
        assert f"{method.upper()} {path}" in page.words
        assert one["summary"] in page.words
    fields = {name for schema in told["components"]["schemas"].values() for name in schema.get("properties", ())}
    assert [name for name in sorted(fields) if not re.search(rf"(?<!\w){name}(?!\w)", page.words)] == []
    links = [attributes["href"] or "" for tag, attributes in page.tags if tag == "a"]
    assert [link for link in links if link.startswith("#") and link[1:] not in ids] == []


async def test_it_loads_its_stylesheet_and_nothing_else(client: httpx.AsyncClient) -> None:
    response = await client.get("/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"].split("; ")
    assert policy[:2] == ["default-src 'none'", "style-src 'self'"]
    page = _Read(response.text)
    loaded = [attributes.get("href") for tag, attributes in page.tags if tag == "link"]
    assert loaded == ["/docs/style.css"]
    assert not {tag for tag, _ in page.tags} & {"script", "style", "img", "iframe", "form"}
    assert not [name for _, attributes in page.tags for name in attributes if name == "style" or name.startswith("on")]
    style = await client.get("/docs/style.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert not re.search(r"url\(|@import", style.text)


def test_what_the_document_says_is_escaped() -> None:
    told = {
        "paths": {"/x": {"get": {"operationId": "x", "summary": "<b>a & b", "responses": {}}}},
        "components": {"schemas": {"Y": {"properties": {"<i>": {"type": "string", "description": "<u>"}}}}},
    }
    assert "<p>&lt;b&gt;a &amp; b.</p>" in reference.calls(told)[0].html
    body = reference.bodies(told)[0].html
    assert "<code>&lt;i&gt;</code>" in body
    assert "&lt;u&gt;" in body


def test_a_type_in_a_few_words() -> None:
    schemas = {
        "A": {"properties": {"one": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 1000}, {"type": "null"}]}}},
        "B": {"required": ["two"], "properties": {"two": {"type": "array", "items": {"$ref": "#/x/A"}}}},
        "C": {"properties": {"three": {"enum": ["on", "off"], "default": "on"}}},
    }
    one, two, three = (section.html for section in reference.bodies({"components": {"schemas": schemas}}))
    assert "integer <small>1 to 1,000</small> or null" in one
    assert 'list of <a href="#body-A">A</a></td><td>needed' in two
    assert "<code>on</code> or <code>off</code></td><td><code>on</code> unless said" in three


async def test_its_calls_are_those_of_the_document(client: httpx.AsyncClient) -> None:
    told = document()
    assert len(reference.calls(told)) == sum(map(len, told["paths"].values()))
    assert (await client.head("/docs")).status_code == 200
