"""A program that reads a page from standard input, its address in the first line and then its HTML, and prints its
Markdown as JSON; started by `pages`.

Nothing of this project is imported here: the page is hostile, and what it can keep busy or exhaust is this process.
"""

from __future__ import annotations

import importlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urljoin

from core.patterns import compile_lazily
from core.text.markup import choose_fence

MAX_MEMORY_BYTES: Final = 1 << 30  # bytes
MAX_CPU_SECONDS: Final = 10  # seconds
PROSE_CPU_SECONDS: Final = 5  # of them, after which an article is read like a page of reference
# What is not seen, or no text. A tab that another one covers is as much of a page as that.
_REMOVED: Final = (
    "script, style, noscript, template, svg, iframe, object, embed, canvas, video, audio, "
    "button, input, select, textarea, dialog, nav, [role=navigation], [role=search], "
    "[hidden]:not([role=tabpanel]), [aria-hidden=true]:not([role=tabpanel]), "
    "a.headerlink, a.anchor, .sr-only, .visually-hidden"
)
# What stands around a page's own content, unless most of the page is in it; and an aside, which within it is a note.
_FRAME: Final = "form, body > header, body > footer, [role=banner], [role=contentinfo]"
_ASIDE: Final = "aside"
_CONTENT: Final = ("main", "[role=main]", "article", "body")
_NOTED: Final = frozenset({"main", "article"})
_MIN_CONTENT_SHARE: Final = 0.3  # of the visible text, that a page's content must have
_REFRESH: Final = compile_lazily(
    r"\s*(\d{1,3})(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"'\s][^\"']*)", re.IGNORECASE
)
_MAX_REFRESH_SECONDS: Final = 10  # seconds after which a page leads elsewhere
_MAX_FRAME_SHARE: Final = 0.5  # of the visible text: a frame of a page has less, several parts of its content more
_REFERENCE: Final = "pre, th, dl"  # what an article seldom has, and what is lost where a page is read as one
_MIN_ARTICLE_CHARS: Final = 1_000  # characters of visible text, below which nothing tells what is around it
_MIN_PROSE_SHARE: Final = 0.1  # of the visible text, that an article must have
# Names of what stands around an article, and of what it stands in: Mozilla's Readability (Apache-2.0), shortened.
_UNLIKELY: Final = compile_lazily(
    r"breadcrumb|combx|comment|community|cookie|disqus|footer|gdpr|legends|masthead|menu|newsletter|outbrain|pager"
    r"|pagination|popup|promo|related|remark|replies|rss|share|shoutbox|sidebar|social|sponsor|subscribe|supplemental"
    r"|taboola|teaser|widget",
    re.IGNORECASE,
)
_LIKELY: Final = compile_lazily(r"article|body|column|content|entry|main|post|story|text", re.IGNORECASE)
_BLOCKS: Final = "ul, ol, div, section, footer, header, form, figure, p"
_MOST_LINKS: Final = 0.5  # of the text of a block within an article: more is a list of links
_ANCHOR_SIGNS: Final = frozenset(
    {"", "#", "¶", "§", "🔗", "\uf0c1", "\u200b"}
)  # texts of links from a heading to itself
_LANGUAGE: Final = compile_lazily(r"(?:language|lang|highlight|highlight-source)-([A-Za-z0-9+#]{1,20})")
_NO_LANGUAGE: Final = frozenset({"default", "none"})


def _limit_resources() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (PROSE_CPU_SECONDS, MAX_CPU_SECONDS))
    signal.signal(signal.SIGXCPU, _raise_cpu_limit)
    if sys.platform.startswith("linux"):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def _raise_cpu_limit(*_: object) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    raise TimeoutError


def read_page(html: str, address: str = "") -> dict[str, Any]:
    """Return title, Markdown and `refresh` of a page, and how many `scripts` it has. `address`: what its links are
    resolved against."""
    parser = importlib.import_module("selectolax.lexbor")
    tree = parser.LexborHTMLParser(html)
    title, base = tree.css_first("title"), tree.css_first("base[href]")
    fields = {
        "title": " ".join(title.text().split())[:300] if title else "",
        "refresh": _find_refresh(tree),
        "scripts": len(tree.css("script")),
    }
    for node in tree.css(_REMOVED):
        node.decompose()
    for block in tree.css("pre"):
        _restore_lines(block)
    for table in tree.css("table"):
        _drop_line_numbers(table)
    links = _resolve(address, (base.attributes.get("href") or "") if base else "") or address
    content = _find_content(tree)
    visible = sum(len(node.text()) for node in content)
    is_reference = visible < _MIN_ARTICLE_CHARS or any(node.css_first(_REFERENCE) for node in content)
    text = "" if is_reference else _extract_prose(html, links)
    if len(text) < visible * _MIN_PROSE_SHARE:
        if not is_reference:
            for node in content:
                _prune_article(node)
        text = "\n\n".join(_convert(node, links, address) for node in content)
    return {**fields, "text": text.strip()}


def _extract_prose(html: str, base: str) -> str:
    """Extract an article as Markdown, without what is around it, with trafilatura, if that is installed (the extra
    `web-articles`); else "".

    Of the marked passages that come out of 990 pages of its own corpus, 75 % belong to the article without it. But it
    keeps 22 % of the blocks of code in eight manuals as they are, not 90.
    """
    with suppress(Exception):  # a foreign library on a hostile page: there is another way to read it
        markdown = importlib.import_module("trafilatura").extract(
            html,
            url=base or None,
            output_format="markdown",
            include_links=True,
            include_formatting=True,
            include_tables=True,
            include_comments=False,
        )
        return str(markdown or "")
    return ""


def _restore_lines(block: Any) -> None:
    """Make lines of the blocks that some highlighters put the lines of a code into."""
    code = block.css_first("code") or block
    for line in [node for node in code.iter() if node.tag == "div"]:
        line.replace_with(line.text().strip("\n") + "\n")


def _drop_line_numbers(table: Any) -> None:
    """Leave the code alone of a table of one row that shows the numbers of its lines beside it."""
    blocks = [block for row in table.css("tr") for block in row.css("pre")]
    if len(table.css("tr")) == 1 and len(blocks) == 2 and not blocks[0].text().strip("\n 0123456789"):
        table.replace_with(blocks[1])


def _find_refresh(tree: Any) -> str:
    """Find where a page leads by itself, "" = nowhere."""
    for node in tree.css("meta[http-equiv]"):
        if str(node.attributes.get("http-equiv") or "").strip().lower() == "refresh":
            match = _REFRESH.match(node.attributes.get("content") or "")
            if match and int(match[1]) <= _MAX_REFRESH_SECONDS:
                return match[2].strip()
    return ""


def _find_content(tree: Any) -> list[Any]:
    """Find the parts of a page that are its own: the first kind of them that holds enough of what is seen."""
    body = tree.body
    if body is None:
        return [tree.root]
    total_length = len(body.text())
    for node in tree.css(_FRAME):
        if len(node.text()) < total_length * _MAX_FRAME_SHARE:
            node.decompose()
    for node in tree.css(_ASIDE):
        if not _is_note(node):
            node.decompose()
    total_length = len(body.text())
    for selector in _CONTENT:
        parts = _list_outermost(tree.css(selector))
        lengths = [len(part.text()) for part in parts]
        if parts and (
            max(lengths) >= total_length * _MIN_CONTENT_SHARE or sum(lengths) >= total_length * _MAX_FRAME_SHARE
        ):
            return parts
    return [body]


def _prune_article(article: Any) -> None:
    """Remove what stands around the text within an article: blocks that are named so, and lists of links."""
    total_length = len(article.text())
    for block in article.css(_BLOCKS):
        if block.mem_id == article.mem_id or not block.parent:
            continue
        name = f"{block.attributes.get('class') or ''} {block.attributes.get('id') or ''}"
        length = len(block.text())
        is_named = _UNLIKELY.search(name) and not _LIKELY.search(name)
        if length < total_length * _MAX_FRAME_SHARE and (is_named or _is_link_list(block, length)):
            block.decompose()


def _is_link_list(block: Any, length: int) -> bool:
    """True if most of the text of a block is links; a paragraph with one link ("See the notes.") is a sentence."""
    links = block.css("a")
    is_sentence = block.tag == "p" and len(links) == 1
    return not is_sentence and sum(len(link.text()) for link in links) > length * _MOST_LINKS


def _list_outermost(nodes: list[Any]) -> list[Any]:
    """List nodes, in the order of the page, that are within no other one of them."""
    node_ids = {node.mem_id for node in nodes}
    return [node for node in nodes if not any(above.mem_id in node_ids for above in _list_above(node))]


def _is_note(node: Any) -> bool:
    return any(ancestor.tag in _NOTED or ancestor.attributes.get("role") == "main" for ancestor in _list_above(node))


def _list_above(node: Any) -> Iterator[Any]:
    while (node := node.parent) is not None:
        yield node


def _convert(node: Any, base: str, address: str) -> str:
    """Convert a part of a page to Markdown; one that is nested too deeply to plain text."""
    try:
        text = str(_build_converter(base, address).convert(node.html or ""))
    except RecursionError:
        text = node.text(separator="\n")
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()


def _build_converter(base: str, address: str) -> Any:
    """Build what converts HTML: words stay as they are, so that they can be found, and links can be fetched."""
    markdownify = importlib.import_module("markdownify")

    class Converter(markdownify.MarkdownConverter):  # type: ignore[name-defined,misc]
        def convert_a(self, el: Any, text: str, parent_tags: set[str]) -> str:
            target = _resolve(base, el.get("href") or "")
            if target and target.partition("#")[0] == address.partition("#")[0]:
                return "" if text.strip() in _ANCHOR_SIGNS else text
            el.attrs = {"href": target} if target else {}
            return str(super().convert_a(el, text, parent_tags))

        def convert_math(self, el: Any, text: str, parent_tags: set[str]) -> str:
            tex = el.find("annotation", encoding="application/x-tex")
            return f"${tex.get_text().strip()}$" if tex else text

        def convert_td(self, el: Any, text: str, parent_tags: set[str]) -> str:
            return str(super().convert_td(el, text.replace("|", r"\|"), parent_tags))

        def convert_th(self, el: Any, text: str, parent_tags: set[str]) -> str:
            return str(super().convert_th(el, text.replace("|", r"\|"), parent_tags))

        def convert_pre(self, el: Any, text: str, parent_tags: set[str]) -> str:
            fence = choose_fence(text)
            return f"\n\n{fence}{_find_language(el)}\n{text.strip(chr(10))}\n{fence}\n\n" if text.strip() else ""

    return Converter(heading_style="ATX", strip=["img"], escape_underscores=False, escape_asterisks=False)


def _resolve(base: str, reference: str) -> str:
    """Return the whole address that a link leads to, "" = to no page."""
    try:
        url = urljoin(base, reference.strip()) if reference.strip() else ""
    except ValueError:
        return ""
    return re.sub(r"\s", "%20", url) if url.partition(":")[0].lower() in {"http", "https", "mailto"} else ""


def _find_language(block: Any) -> str:
    """Find the language of a block of code by what highlighters write, "" = none is named."""
    nodes = (block, *block.find_all("code", limit=1), *list(block.parents)[:2])
    language_attributes = [str(node.get(key) or "") for node in nodes for key in ("data-language", "data-lang")]
    matches = [_LANGUAGE.fullmatch(css_class) for node in nodes for css_class in node.get("class") or ()]
    names = [*(match[1] for match in matches if match), *language_attributes]
    return next((name for name in names if re.fullmatch(r"[A-Za-z0-9+#]{1,20}", name) and name not in _NO_LANGUAGE), "")


if __name__ == "__main__":
    _limit_resources()
    where, _, whole = sys.stdin.buffer.read().decode("utf-8", "replace").partition("\n")
    sys.stdout.write(json.dumps(read_page(whole, where)))
