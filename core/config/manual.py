"""The installed manual: its pages, and the descriptions of settings in one of them."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

from core.patterns import compile_lazily

_FOLDER: Final = Path(__file__).parents[2] / "docs"
_SETTINGS_PAGE: Final = "settings-and-trouble"
_ROW: Final = compile_lazily(r"^\| `(?P<key>[a-z_A-Z.]+)` \| .*? \| (?P<meaning>.*) \|$", re.MULTILINE)
_COMMENT: Final = compile_lazily(r"<!--.*?-->\n*", re.DOTALL)
_PICTURE: Final = compile_lazily(r"!\[[^\]]*\]\([^)]*\)\n*")
_LOCAL_LINK: Final = compile_lazily(r"\[(?P<text>[^\[\]]+)\]\((?![a-z]+:)(?P<target>[^)]*)\)")
_LINK: Final = compile_lazily(r"\[([^\[\]]+)\]\([^)]*\)")


@cache
def list_pages() -> tuple[str, ...]:
    """Return the sorted names of the pages. Those of developers, in `docs/dev`, are only in the repository."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.md")))


def read_page(name: str) -> str:
    """Return a page as Markdown, "" if there is none of that name."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8") if name in list_pages() else ""


def render_page(name: str) -> str:
    """Return a page for a terminal: without pictures and comments, links into the manual as commands."""

    def name_link(match: re.Match[str]) -> str:
        page = match["target"].partition("#")[0].removesuffix(".md")
        return f"`/help {page}`" if match["text"] in (page, f"{page}.md") and page in list_pages() else match["text"]

    return _LOCAL_LINK.sub(name_link, _COMMENT.sub("", _PICTURE.sub("", read_page(name))))


def read_title(name: str) -> str:
    """Return the first heading of a page."""
    return next((line[2:].strip() for line in read_page(name).splitlines() if line.startswith("# ")), name)


def find_page(words: str) -> str:
    """Return the name of the page that `words` denote, by its name, its title or one of its headings; "" = none."""
    slug = "-".join(words.lower().lstrip("/").split())
    if slug in list_pages() or not slug:
        return slug
    starts = [name for name in list_pages() if name.startswith(slug) or slug.rstrip("s") == name.rstrip("s")]
    word_matches = [name for name in list_pages() if slug in name.split("-")]
    title_matches = [name for name in list_pages() if slug.replace("-", " ") in read_title(name).lower()]
    heading_matches = (name for name in list_pages() if slug.replace("-", " ") in _read_headings(name))
    return next(chain(starts, word_matches, title_matches, heading_matches), "")


def _read_headings(name: str) -> str:
    return "\n".join(line for line in read_page(name).splitlines() if line.startswith("##")).lower()


@cache
def read_meanings() -> dict[str, str]:
    """Return the description of every setting by its key with NAME, without links."""
    page = read_page(_SETTINGS_PAGE).partition("\n## Settings\n")[2].partition("\n## ")[0]
    return {
        re.sub(r"\b(JOB|MODE)\b", "NAME", match["key"]): _LINK.sub(r"\1", match["meaning"]).replace("\\|", "|")
        for match in _ROW.finditer(page)
    }
