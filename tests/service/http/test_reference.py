"""/docs: the reference of every call, as a page that asks nobody else for anything."""

import re

import httpx
import pytest

from support.html_page import HTMLPage
from tarry.service.http import reference
from tarry.service.http.openapi import document


@pytest.mark.slow
async def test_it_tells_every_call_body_and_field(client: httpx.AsyncClient) -> None:
    page = HTMLPage((await client.get("/docs")).text)
    words = " ".join(page.text)
    told = (await client.get("/openapi.json")).json()
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    calls = [(path, method, one) for path, of in told["paths"].items() for method, one in of.items()]
    assert ids >= {one["operationId"] for _, _, one in calls}
    assert ids >= {f"body-{name}" for name in told["components"]["schemas"]}
    for path, method, one in calls:
        assert f"{method.upper()} {path}" in words
        assert one["summary"] in words
    fields = {name for schema in told["components"]["schemas"].values() for name in schema.get("properties", ())}
    assert [name for name in sorted(fields) if not re.search(rf"(?<!\w){name}(?!\w)", words)] == []
    links = [attributes["href"] or "" for tag, attributes in page.elements if tag == "a"]
    assert [link for link in links if link.startswith("#") and link[1:] not in ids] == []


async def test_it_loads_its_stylesheet_and_nothing_else(client: httpx.AsyncClient) -> None:
    response = await client.get("/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"].split("; ")
    assert policy[:2] == ["default-src 'none'", "style-src 'self'"]
    page = HTMLPage(response.text)
    loaded = [attributes.get("href") for tag, attributes in page.elements if tag == "link"]
    assert loaded == ["/docs/style.css"]
    assert not {tag for tag, _ in page.elements} & {"script", "style", "img", "iframe", "form"}
    assert not [
        name for _, attributes in page.elements for name in attributes if name == "style" or name.startswith("on")
    ]
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
