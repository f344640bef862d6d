"""Checks answers against /openapi.json, so that the document stays true."""

import re

import httpx

from tarry.service.http.openapi import document

_PATHS = document()["paths"]


async def documented(response: httpx.Response) -> None:
    """Fails when the document does not describe this answer."""
    method = response.request.method.lower().replace("head", "get")
    path = response.request.url.raw_path.partition(b"?")[0].decode()  # not decoded: a name may have a slash in it
    known = [
        operations for template, operations in _PATHS.items() if re.fullmatch(re.sub("{.+?}", "[^/]+", template), path)
    ]
    if not known or method not in known[0]:
        assert response.status_code in (404, 405, 421)
        return
    responses = known[0][method]["responses"]
    assert str(response.status_code) in responses, f"{method} {path} answered {response.status_code}"
    media = response.headers["content-type"].partition(";")[0]
    assert media in responses[str(response.status_code)]["content"]
