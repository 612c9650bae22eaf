"""Repairs of new lines: a mistake that is tolerated in the lines to find is repaired in added lines, too.

Curly quotes and HTML entities count as mistakes only in a file that has none, where they replace signs of code. They
are intended in a comment; quotes are intended in prose and next to straight ones, entities in a string or markup. The
numbers of a listing are removed if they were plainly copied. Every kind of repair is reported.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from core.edits.errors import EditError
from core.edits.indentation import extract_indent
from core.edits.matching.search_text import ENTITY, SearchText, split_strings
from core.patterns import compile_lazily
from core.text.similarity import measure_similarity

QUOTES: Final = "quotes"
ENTITIES: Final = "entities"
NUMBERS: Final = "numbers"
_PAIRS: Final = (("“”„‟", '"'), ("‘’‚‛", "'"))
_CURLY = compile_lazily(f"[{''.join(signs for signs, _ in _PAIRS)}]")
_DELIMITER = compile_lazily(
    r"[(\[{=+!<>&|?]\s*[“‘]|[”’]\s*[)\]};]|^\s*[“‘][^”’]*[”’]\s*[:,]"
    r"|^\s*[\w.-]+\s*:\s*[“‘][^”’]*[”’],?\s*$"
    r"|\b(?:return|import|from|include|require|case|echo|print|puts|in|and|or|not|is|if|elif|when|yield|throw|raise)\s+[“‘]"
)
_MARKUP = compile_lazily(r"</[A-Za-z]|<[A-Za-z][^<>\n]*/?>\s*$|/>", re.MULTILINE)
_COMMENT = compile_lazily(r"(?:^|\s)(?:#+|//+|/?\*+|--|;+|<!--|%)(?:\s|$)|^\s*(?:#|//|/\*|\*)")
_NUMBER = compile_lazily(r"\s*(\d+) ?[|→]")
_BAR = compile_lazily("[|→]")
_ALIKE: Final = 0.6  # similarity from which on a line is a version of another


class MendedLines(NamedTuple):
    """Lines, and the kinds of mistakes that were repaired in them."""

    lines: list[str]
    slips: tuple[str, ...] = ()


def mend_new_text(search_text: SearchText, old: str, new: str) -> tuple[str, tuple[str, ...]]:
    """Repair the lines of `new` that `old` does not have. Returns the text and the kinds of mistakes. Raises
    `EditError` if only some lines are numbered and that can't be repaired."""
    old_lines = old.split("\n")
    new_lines, number_slips = _strip_copied_numbers(search_text, old_lines, new.split("\n"))
    lines, slips = mend_new_lines(search_text, old_lines, new_lines)
    return "\n".join(lines), (*number_slips, *slips)


def mend_new_lines(search_text: SearchText, old_lines: Sequence[str], new_lines: Sequence[str]) -> MendedLines:
    """Repair the quotes and entities of new lines that are none of the old ones."""
    known_lines, slips = set(old_lines), []
    fresh = [line for line in new_lines if line not in known_lines]
    lines = list(new_lines)
    if any(map(_CURLY.search, fresh)) and not _CURLY.search(search_text.text):
        lines = [line if line in known_lines else _straighten(line) for line in lines]
        slips += [QUOTES] if lines != list(new_lines) else []
    if (
        any(map(ENTITY.search, fresh))
        and not ENTITY.search(search_text.text)
        and not _is_markup(search_text, new_lines)
    ):
        before = lines
        lines = [line if line in known_lines else _resolve_entities(line) for line in lines]
        slips += [ENTITIES] if lines != before else []
    return MendedLines(lines, tuple(slips))


def _straighten(line: str) -> str:
    comment = _COMMENT.search(line)
    code, rest = (line[: comment.start()], line[comment.start() :]) if comment else (line, "")
    if not _DELIMITER.search(code):
        return line
    for signs, plain in _PAIRS:
        if plain not in code:
            code = code.translate(dict.fromkeys(map(ord, signs), plain))
    return code + rest


def _is_markup(search_text: SearchText, new_lines: Sequence[str]) -> bool:
    return _MARKUP.search(search_text.text) is not None or any(map(_MARKUP.search, new_lines))


def _resolve_entities(line: str) -> str:
    comment = _COMMENT.search(line)
    code, rest = (line[: comment.start()], line[comment.start() :]) if comment else (line, "")
    parts = split_strings(code)
    return "".join(part if index % 2 else html.unescape(part) for index, part in enumerate(parts)) + rest


def _strip_copied_numbers(
    search_text: SearchText, old_lines: Sequence[str], new_lines: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Strip the numbers of a listing from new lines where old lines have none. One of the lines has to be an old line
    or a version of one that is a whole line of the file, without a bar in it."""
    marks = [None if line in old_lines else _NUMBER.match(line) for line in new_lines]
    if not any(marks) or any(map(_NUMBER.match, [*old_lines, *search_text.lines.bodies])):
        return list(new_lines), ()
    rests = [line[mark.end() :] for line, mark in zip(new_lines, marks, strict=True) if mark]
    space = " " if all(rest[:1] in ("", " ") for rest in rests) else ""
    known_lines = {line for line in old_lines if line.strip() and not _BAR.search(line)}.intersection(
        search_text.lines.bodies
    )
    if not any(_is_what_became(rest.removeprefix(space), known_lines) for rest in rests if rest.strip()):
        return list(new_lines), ()
    numbers = [int(mark[1]) for mark in marks if mark]
    if any(one >= other for one, other in pairwise(numbers)):
        raise build_numbered_error()
    pairs = zip(new_lines, marks, strict=True)
    return [line[mark.end() :].removeprefix(space) if mark else line for line, mark in pairs], (NUMBERS,)


def _is_what_became(line: str, known_lines: Collection[str]) -> bool:
    depth = extract_indent(line)
    return any(
        extract_indent(known_line) == depth and measure_similarity(line, known_line) >= _ALIKE
        for known_line in known_lines
    )


def build_numbered_error() -> EditError:
    """Build the `EditError` for new text of which only some lines are numbered, in another sequence than the old
    text."""
    return EditError(
        "Some lines of the new text start with line numbers, others do not.",
        hint="Give the new lines without numbers. Nothing was changed.",
    )
