"""Certainty about broken syntax: a grammar's error proves nothing where a language may be newer than its grammar.

A text is surely broken where a grammar that reads every present form of its language refuses it, or where its brackets
no longer match and did before. What stands in a construct that a grammar is known not to read is never sure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from core.syntax.python_parser import find_compile_error
from core.text.json_repairs import to_strict_json

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]

LARGEST: Final = 200_000  # characters: a compiler and a scan hold everything else up
_PYTHON: Final = frozenset({".py", ".pyi", ".pyw"})
_SCRIPTS: Final = frozenset({".js", ".mjs", ".cjs"})
# What is valid and not read by a grammar that reads the rest of its language.
_UNREAD: Final = {
    **dict.fromkeys(_PYTHON, re.compile(r"^\s*lazy\s+(import|from)\b|\b(def|class|type)\s+\w+\s*\[", re.MULTILINE)),
    **dict.fromkeys(
        _SCRIPTS,
        re.compile(
            r"\bimport\s+(defer|source|type)\b|\bas\s+\w|\baccessor\b|</|/>|@flow\b|\bmatch\s*\(|\|>|#\{|#\[|\bdo\s*\{"
        ),
    ),
    ".go": re.compile(r"\bnew\("),
    ".java": re.compile(r"\bimport\s+module\b|\bvalue\s+(class|record)\b|\b(super|this)\(|\bSTR\.|\bwith\s*\{|@"),
}
_TEMPLATE: Final = re.compile(r"\{\{\s*[\w#/>.-]|\{%|<%|%>|<\?|\$\{\{|^(<{7}|={7}|>{7})", re.MULTILINE)
_STRICT_JSON: Final = frozenset({"package.json", "package-lock.json", "composer.json", "manifest.json"})
_LOOSE_JSON: Final = re.compile(
    r"^(ts|js)config\b|^\.|^(babel|deno|biome|turbo|devcontainer|language-configuration|api-extractor|rush|renovate|typedoc"
    r"|settings|launch|tasks|keybindings|extensions|angular|wrangler|nx|tslint|nest-cli|oxlintrc)\b.*\.json$"
)
_LEXERS: Final = {
    ending: name
    for name, endings in {
        "javascript": ".js .mjs .cjs .jsx",
        "typescript": ".ts .mts .cts .tsx",
        "rust": ".rs",
        "java": ".java",
        "csharp": ".cs",
        "go": ".go",
        "c": ".c",
        "cpp": ".cpp .cc .cxx .hpp .hh .hxx",
    }.items()
    for ending in endings.split()
}
# What brackets mean nothing in, in style sheets, whose lexer does not know every form either.
_STYLE_WORD: Final = re.compile(
    r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|\burl\(\s*[^\s\"')][^)]*\)|\\.", re.DOTALL
)
_OPENING: Final = {")": "(", "]": "[", "}": "{"}
_CLOSING_TAG: Final = re.compile(r"</[\w.:-]*\s*>|/>")  # whose slash a lexer takes for the start of a pattern
_MARKUP: Final = frozenset({".jsx", ".tsx"})  # a bracket may stand in its words, a brace may not


def is_surely_broken(path: str, before: str, after: str, lines: Collection[int]) -> bool:
    """Return True if `after`, which a grammar does not read at `lines` (1-indexed), is broken in any form of its
    language. `before` is a text that was read; "" = there was none."""
    ending = PurePath(path).suffix.lower()
    if len(after) > LARGEST or _TEMPLATE.search(affected_text := _join_concerned(before, after, lines)):
        return False
    if ending in _PYTHON:
        return find_compile_error(after) is not None and not _UNREAD[ending].search(affected_text)
    if ending == ".json":
        return not is_read_as_loose_json(path, after)
    if (unread := _UNREAD.get(ending)) is not None and not unread.search(affected_text):
        return True
    return _loses_brackets(ending, before, after)


def is_read_as_loose_json(path: str, text: str) -> bool:
    """Return True if JSON is right for those who take comments and trailing commas; a file that none of them reads
    has to be strict."""
    name = PurePath(path).name
    if name in _STRICT_JSON:
        return False
    try:
        json.loads(to_strict_json(text.encode("utf-8", "surrogatepass")))
    except (ValueError, RecursionError):
        return False
    return True


def takes_loose_json(path: str) -> bool:
    """Return True for a file whose readers are known to take comments and trailing commas."""
    return ".vscode" in PurePath(path).parts or _LOOSE_JSON.search(PurePath(path).name) is not None


def _join_concerned(before: str, after: str, lines: Collection[int]) -> str:
    """Return the lines that are new, and those that are not read."""
    old_lines = set(before.split("\n"))
    return "\n".join(
        line for number, line in enumerate(after.split("\n"), start=1) if number in lines or line not in old_lines
    )


def _loses_brackets(ending: str, before: str, after: str) -> bool:
    """Return True if the brackets of a text match no more. Branches of a preprocessor may each open the same one, and
    what it includes may close what another file has opened."""
    if ending not in (*_LEXERS, ".css") or before.count("#if") != after.count("#if"):
        return False
    if not before and _LEXERS.get(ending) in ("c", "cpp"):
        return False
    signs = "{}" if ending in _MARKUP else "()[]{}"
    return _has_matching_brackets(ending, before, signs) and not _has_matching_brackets(ending, after, signs)


def _has_matching_brackets(ending: str, text: str, signs: str) -> bool:
    still_open: list[str] = []
    if ending in _MARKUP:
        text = _CLOSING_TAG.sub("", text)
    code = _STYLE_WORD.sub("", text) if ending == ".css" else _take_code(_LEXERS[ending], text)
    for sign in filter(signs.__contains__, code):
        if sign not in _OPENING:
            still_open.append(sign)
        elif not still_open or still_open.pop() != _OPENING[sign]:
            return False
    return not still_open


def _take_code(language: str, text: str) -> str:
    """Return a text without its strings and comments."""
    from pygments.token import Comment, Error, String  # type: ignore[import-untyped]

    return "".join(
        word
        for kind, word in _load_lexer(language).get_tokens(text)
        if not ((kind in String and kind not in String.Interpol) or kind in Comment or kind in Error)
    )


@cache
def _load_lexer(name: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    return get_lexer_by_name(name)
