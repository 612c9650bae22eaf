"""Front matter of rule files, as people write it: `globs: *.py, src/**` is common, and no YAML.

So it is read by line and never refused: a key, a value that may be quoted, and items of a list below their key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

FrontMatter = Mapping[str, str | list[str]]
MAX_BLOCKS = 3  # editors that import rules put a block of their own before the one that is there
_BLOCK = re.compile(r"\A---[ \t]*\n(?P<front>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"(?P<key>[A-Za-z_][\w-]*)\s*:(?:\s+(?P<value>.*)|\s*)")
_BEGUN = re.compile(r"---[ \t]*\n[A-Za-z_][\w-]*\s*:")
_BLOCK_SIGN = re.compile(r"[>|][+-]?[1-9]?[+-]?")
_COMMENT = re.compile(r"(?:^|\s)#.*$")


def is_unclosed(text: str) -> bool:
    """True if a text begins as front matter does, and no second line of dashes ends it."""
    return _BEGUN.match(text) is not None and _BLOCK.match(text) is None


def split_front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """Split front matter and body. Of several blocks the first one that gives a key a value counts for it."""
    front: dict[str, str | list[str]] = {}
    for _ in range(MAX_BLOCKS):
        match = _BLOCK.match(text)
        if match is None:
            break
        block = _parse_lines(match["front"])
        if not block and match["front"].strip():  # a ruler of dashes over a text
            break
        front |= {key: value for key, value in block.items() if not front.get(key)}
        text = text[match.end() :]
    return front, text


def _parse_lines(block: str) -> dict[str, str | list[str]]:
    front: dict[str, str | list[str]] = {}
    key = ""
    for line in block.splitlines():
        item = line.strip()
        if not line[:1].isspace() and (assignment := _KEY.fullmatch(line.rstrip())):
            key = assignment["key"]
            front[key] = unquote(assignment["value"] or "")
        elif key and item.startswith("- "):
            present = front[key]
            front[key] = [*(present if isinstance(present, list) else []), unquote(item[2:])]
        elif key and item and not item.startswith("#") and isinstance(present := front[key], str):
            before = "" if _BLOCK_SIGN.fullmatch(present) else present
            front[key] = f"{before} {unquote(item)}".strip()  # a value that goes on in the next line
    return front


def unquote(value: str) -> str:
    """Return a value without the quotes around it, or without the comment behind it."""
    value = value.strip()
    if len(value) > 1 and value[0] in "\"'" and (end := value.find(value[0], 1)) > 0:
        rest = value[end + 1 :].strip()
        return value[1:end] if not rest or rest.startswith("#") else value
    return _COMMENT.sub("", value).strip()


def get_text(front: FrontMatter, key: str) -> str:
    """Return the value of a key as one text, "" = none."""
    value = front.get(key, "")
    return value if isinstance(value, str) else ", ".join(value)


def parse_patterns(front: FrontMatter, key: str) -> Iterator[str]:
    """Parse patterns from a string ("a, b"), a flow list ("[a, b]") or a list; commas within braces do not part."""
    value = front.get(key, "")
    for item in value if isinstance(value, list) else [value]:
        text = item.strip()
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        for part in re.split(r",(?![^{]*\})", text):
            if pattern := unquote(part):
                yield pattern.removeprefix("./")
