"""What `mkdocs build` does beside: pages from beyond docs/ and from the code, and a look that no other host is asked.

docs/ is written for whoever reads it in the repository, where links lead to files beside docs/. In the site those are
pages too, or are named without a link where they are no documents.
"""

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tarry.service.http import reference
from tarry.service.http.openapi import document

_ROOT = Path(__file__).parents[1]
_BESIDE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Documents beside docs/ that are pages."""
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def _calls() -> str:
    """The page of all calls, from the document that the server answers at /openapi.json."""
    told = document()
    parts = [
        "# HTTP: every call and body\n",
        "Made from the OpenAPI document. A server has the same page at `/docs`, and the document at `/openapi.json`,",
        "with the patterns of text in full. [The reference by hand](http.md) tells what the calls are for.\n",
    ]
    for heading, sections in (("Calls", reference.calls(told)), ("Bodies", reference.bodies(told))):
        parts.append(f"## {heading}\n")
        parts += [f"### {one.title} {{: #{one.anchor} }}\n\n<div>{one.html}</div>\n" for one in sections]
    return "\n".join(parts)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The decisions are a part of the menu. Pages that it does not name yet are in it all the same, at its end."""
    named = str(config.nav)
    docs = Path(config.docs_dir)
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    decisions = [page for page in pages if page.startswith("decisions/")]
    if config.nav is not None:
        config.nav.append({"Decisions": decisions})
        if more := [page for page in pages if page not in decisions and f"'{page}'" not in named]:
            config.nav.append({"More": more})
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The pages that are not in docs/."""
    for name in _BESIDE:
        files.append(File.generated(config, name, content=(_ROOT / name).read_text("utf-8")))
    files.append(File.generated(config, "reference/calls.md", content=_calls()))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, config: MkDocsConfig) -> str:
    """Links as they are in the site."""
    uri = page.file.src_uri
    here = posixpath.dirname(uri if uri in _BESIDE else f"docs/{uri}")

    def lead(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(here, target))
        if (_ROOT / path).is_dir():
            return text  # a folder has no page
        if path.startswith("docs/") or path in _BESIDE:
            there = path.removeprefix("docs/")
        elif (_ROOT / path).exists():
            return text  # it is in the repository only
        else:
            there = path  # leads nowhere, and mkdocs says so
        return f"[{text}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{anchor})"

    return _LINK.sub(lead, markdown)


class _Loads(HTMLParser):
    """What a browser loads by itself when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "link" and (named.get("rel") or "") not in ("canonical", "next", "prev"):
            self.found.append(named.get("href") or "")
        elif tag not in ("a", "link"):
            self.found.append(named.get("src") or "")


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Refuses a page that loads something from another host."""
    loads = _Loads()
    loads.feed(output)
    outside = [one for one in loads.found if re.match(r"(?:[a-z]+:)?//", one)]
    if outside:
        raise PluginError(f"{page.file.src_uri} loads from another host: {', '.join(outside)}")
    return output
