"""A program that reads a page of HTML from standard input and prints its Markdown as JSON; started by `pages`.

Nothing of this project is imported here: the page is hostile, and what it can keep busy or exhaust is this process.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from typing import Any, Final

MAX_MEMORY_BYTES: Final = 1 << 30  # bytes
MAX_CPU_SECONDS: Final = 10  # seconds
_REMOVED: Final = (
    "script, style, noscript, template, svg, iframe, object, embed, form, button, input, select, dialog, nav, "
    "[hidden], [aria-hidden=true], [role=navigation], [role=search], [role=banner], [role=contentinfo], "
    "a.headerlink, a.anchor, .sr-only, .visually-hidden"
)
_FRAME: Final = "body > header, body > footer, aside"  # what stands around a page's own content
_CONTENT: Final = ("main", "[role=main]", "article", "body")
_LEAST_SHARE: Final = 0.3  # of the visible text, that a page's content must have
_REFRESH: Final = re.compile(r"\s*(\d{1,3})(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"'\s][^\"']*)", re.IGNORECASE)
_LONGEST_WAIT: Final = 10  # seconds after which a page leads elsewhere


def _limit_resources() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    if sys.platform.startswith("linux"):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def read_page(html: str) -> dict[str, Any]:
    """Return title, Markdown and `refresh` of a page, and how many `scripts` it has."""
    parser = importlib.import_module("selectolax.lexbor")
    tree = parser.LexborHTMLParser(html)
    title = tree.css_first("title")
    found = {
        "title": " ".join(title.text().split())[:300] if title else "",
        "refresh": _find_refresh(tree),
        "scripts": len(tree.css("script")),
    }
    for node in tree.css(_REMOVED):
        node.decompose()
    return {**found, "text": _convert(_find_content(tree))}


def _find_refresh(tree: Any) -> str:
    """Find where a page leads by itself, "" = nowhere."""
    for node in tree.css("meta[http-equiv]"):
        if str(node.attributes.get("http-equiv") or "").strip().lower() == "refresh":
            found = _REFRESH.match(node.attributes.get("content") or "")
            if found and int(found[1]) <= _LONGEST_WAIT:
                return found[2].strip()
    return ""


def _find_content(tree: Any) -> Any:
    """Find the part of a page that is its own: the first that holds enough of what is seen."""
    body = tree.body
    if body is None:
        return tree.root
    for node in tree.css(_FRAME):
        node.decompose()
    whole = len(body.text())
    for selector in _CONTENT:
        best = max(tree.css(selector), key=lambda node: len(node.text()), default=None)
        if best is not None and len(best.text()) >= whole * _LEAST_SHARE:
            return best
    return body


def _convert(node: Any) -> str:
    """Convert a part of a page to Markdown; one that is nested too deeply to plain text."""
    markdownify = importlib.import_module("markdownify")
    try:
        text = markdownify.markdownify(
            node.html or "", heading_style="ATX", strip=["img"], code_language_callback=_find_language
        )
    except RecursionError:
        text = node.text(separator="\n")
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()


def _find_language(block: Any) -> str:
    """Find the language of a block of code by its classes, "" = none is named."""
    nodes = (block, *block.find_all("code", limit=1), *filter(None, [block.parent]))
    classes = (each for node in nodes for each in node.get("class") or ())
    found = (re.fullmatch(r"(?:language|lang|highlight)-([A-Za-z0-9+#]{1,20})", each) for each in classes)
    return next((each[1] for each in found if each), "")


if __name__ == "__main__":
    _limit_resources()
    sys.stdout.write(json.dumps(read_page(sys.stdin.buffer.read().decode("utf-8", "replace"))))
