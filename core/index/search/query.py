"""A parsed query: its words, names and paths, and how it is ranked.

An issue is long and full of names: its first line is the most specific, so it is searched separately, and words weigh
more than meaning. A short query counts words and meaning equally; a bare name asks for its definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from core.index.path_kinds import PathKind, list_wanted_kinds
from core.index.words import split_words
from core.patterns import compile_lazily

Shape = Literal["name", "short", "long"]

MAX_TEXT: Final = 20_000
"""Characters of a query that are read; a longer one is a pasted log."""

LONG_WORDS: Final = 30
STOP_WORDS: Final = frozenset(
    split_words(
        "the a an and or of to in is it for with on by as be this that are from at not if when then else we i you can "
        "should would could does do did has have had was were will but so no which what how where why who there here "
        "than into its only also any all use used using"
    )
)

_NAME = compile_lazily(r"[^\W\d]\w*(?:(?:\.|::|->|#)[^\W\d]\w*)*")
_JOINT = compile_lazily(r"\.|::|->|#")
# Anchored at the start of a run of such characters, so that a long run without a match takes linear time.
_PATH = compile_lazily(r"(?<![\w.@+\\/-])[\w.@+\\/-]*[\w+-]\.[A-Za-z]\w{0,4}\b|(?<![\w.@+/-])/*(?:[\w.@+-]+/)+[\w@+-]+")
_COMMENT = compile_lazily(r"<!--.*?-->", re.DOTALL)
_ADDRESS = compile_lazily(r"\b(?:https?|ftp)://\S+")
_HEADER = compile_lazily(
    r"\W*(?:describe the (?:bug|issue)|bug(?: report| description)?|description|summary|issue|problem|checklist"
    r"|search before asking|what (?:happened|is wrong)|expected \w+|steps to reproduce|environment|version)\W*",
    re.IGNORECASE,
)
_CODED = compile_lazily(r"\w_\w|[a-z\d][A-Z]|^[A-Z]{2,}[a-z]|^_")
_TRACEBACK_FRAME = compile_lazily(r'File "[^"\n]+", line \d+, in (\w+)')


class ParsedQuery(Struct, frozen=True, kw_only=True):
    """`words` are those of the whole text, `first_words` those of its first line, without duplicates and stop words.

    `names`: names as in code with their weight (1 = in the first line); `Class.method` counts as itself and as its last
    part. `paths`: mentioned files and modules, with "/" between their parts. `wanted`: kinds of paths that the query
    asks for, which lose no score.
    """

    text: str
    first: str
    words: tuple[str, ...]
    first_words: tuple[str, ...]
    names: dict[str, float]
    paths: tuple[str, ...]
    shape: Shape
    wanted: frozenset[PathKind]


def parse_query(text: str) -> ParsedQuery:
    """Return the query of a text."""
    raw = text.strip()[:MAX_TEXT]
    comment_end = raw.rfind("-->") + len("-->")  # no comment ends after it, so none is searched there
    clean_text = _ADDRESS.sub(" ", _COMMENT.sub(" ", raw[:comment_end]) + raw[comment_end:]).strip() or raw
    first = _find_first_line(clean_text)
    shape = _find_shape(clean_text)
    words = _list_words(clean_text)
    return ParsedQuery(
        text=clean_text,
        first=first,
        words=words,
        first_words=_list_words(first) or words,
        names=_weigh_names(clean_text, first, shape),
        paths=tuple(dict.fromkeys(_list_paths(raw))),
        shape=shape,
        wanted=list_wanted_kinds(first) if shape == "short" else frozenset(),
    )


def _find_first_line(text: str) -> str:
    """Return the first line with content; headers of issue templates have none."""
    lines = [line.strip() for line in text.split("\n")]
    return next((line for line in lines if line and not _HEADER.fullmatch(line)), text)[:400]


def _find_shape(text: str) -> Shape:
    if _NAME.fullmatch(text.removesuffix("()")):
        return "name"
    return "long" if len(text.split()) > LONG_WORDS else "short"


def _list_words(text: str) -> tuple[str, ...]:
    words = dict.fromkeys(split_words(text))
    return tuple(word for word in words if word not in STOP_WORDS) or tuple(words)


def _weigh_names(text: str, first: str, shape: Shape) -> dict[str, float]:
    """Return names as in code; a plain word counts if it is called, quoted, or the whole query."""
    weights: dict[str, float] = {}
    frames = set(_TRACEBACK_FRAME.findall(text))
    for match in _NAME.finditer(text):
        name = match[0]
        around = text[max(0, match.start() - 1) : match.start()] + text[match.end() : match.end() + 1]
        parts = _JOINT.split(name)
        if shape != "name" and not (len(parts) > 1 or _is_coded(name, around) or name in frames):
            continue
        weight = 1.0 if name in first else 0.4
        for variant in dict.fromkeys((".".join(parts), parts[-1])):
            if len(variant) > 2:
                weights[variant] = max(weight, weights.get(variant, 0.0))
    return weights


def _is_coded(name: str, around: str) -> bool:
    return bool(_CODED.search(name)) or around.endswith("(") or around == "``"


def _list_paths(text: str) -> Iterator[str]:
    for match in _PATH.finditer(text):
        yield match[0].replace("\\", "/").strip("/.")
    for match in _NAME.finditer(text):
        if "." in match[0]:
            yield match[0].replace(".", "/")
