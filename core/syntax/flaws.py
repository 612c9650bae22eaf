"""Syntax errors of a text, and which of them an edit has introduced.

Python that parses is compiled as well, since "'return' outside function" parses; what compiles has no error.

A grammar's error proves nothing where a language may be newer than its grammar. A text is certainly broken where a
grammar that covers the whole present language rejects it, or where its brackets no longer match and did before. An
error inside a construct that a grammar is known not to cover is never certain. A check that fails reports nothing, as
the edit is made by then.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from core.crash_reports import save_crash_report
from core.patterns import compile_lazily
from core.syntax.grammars import parse_syntax
from core.syntax.python_parser import find_compile_error, is_parsed_by_python
from core.text.json_repairs import to_strict_json
from core.text.lines import split_lines

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]

LARGEST: Final = 200_000  # characters; compiling and scanning block everything else
_PYTHON_ENDINGS: Final = frozenset({".py", ".pyi", ".pyw"})
_SCRIPTS: Final = frozenset({".js", ".mjs", ".cjs"})
# Valid syntax that the grammar, though it covers the rest of the language, rejects.
_UNREAD: Final = {
    **dict.fromkeys(
        _PYTHON_ENDINGS, compile_lazily(r"^\s*lazy\s+(import|from)\b|\b(def|class|type)\s+\w+\s*\[", re.MULTILINE)
    ),
    **dict.fromkeys(
        _SCRIPTS,
        compile_lazily(
            r"\bimport\s+(defer|source|type)\b|\bas\s+\w|\baccessor\b|</|/>|@flow\b|\bmatch\s*\(|\|>|#\{|#\[|\bdo\s*\{"
        ),
    ),
    ".go": compile_lazily(r"\bnew\("),
    ".java": compile_lazily(r"\bimport\s+module\b|\bvalue\s+(class|record)\b|\b(super|this)\(|\bSTR\.|\bwith\s*\{|@"),
}
_TEMPLATE: Final = compile_lazily(r"\{\{\s*[\w#/>.-]|\{%|<%|%>|<\?|\$\{\{|^(<{7}|={7}|>{7})", re.MULTILINE)
_STRICT_JSON: Final = frozenset({"package.json", "package-lock.json", "composer.json", "manifest.json"})
_LOOSE_JSON: Final = compile_lazily(
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
# Brackets have no meaning here in style sheets, whose lexer does not know every form either.
_STYLE_WORD: Final = compile_lazily(
    r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|\burl\(\s*[^\s\"')][^)]*\)|\\.", re.DOTALL
)
_OPENING: Final = {")": "(", "]": "[", "}": "{"}
# A lexer takes the slash of such a tag for the start of a regular expression.
_CLOSING_TAG: Final = compile_lazily(r"</[\w.:-]*\s*>|/>")
_MARKUP: Final = frozenset({".jsx", ".tsx"})  # text content may contain a bracket, but no brace
_ASKED: Final = 200
_COMPILED: Final = (".py", ".pyi")


def is_certainly_broken(path: str, before: str, after: str, lines: Collection[int]) -> bool:
    """Return True if `after`, which a grammar rejects at `lines` (1-indexed), is invalid in every version of its
    language. `before` is an earlier text that parsed; "" = none."""
    ending = PurePath(path).suffix.lower()
    if len(after) > LARGEST or _TEMPLATE.search(affected_text := _join_concerned(before, after, lines)):
        return False
    if ending in _PYTHON_ENDINGS:
        return find_compile_error(after) is not None and not _UNREAD[ending].search(affected_text)
    if ending == ".json":
        return not is_valid_loose_json(path, after)
    if (unread := _UNREAD.get(ending)) is not None and not unread.search(affected_text):
        return True
    return _loses_brackets(ending, before, after)


def is_valid_loose_json(path: str, text: str) -> bool:
    """Return True if the text is valid JSON with comments and trailing commas, and the readers of the file accept
    these."""
    name = PurePath(path).name
    if name in _STRICT_JSON:
        return False
    try:
        json.loads(to_strict_json(text.encode("utf-8", "surrogatepass")))
    except (ValueError, RecursionError):
        return False
    return True


def allows_loose_json(path: str) -> bool:
    """Return True for a file whose readers are known to accept comments and trailing commas."""
    return ".vscode" in PurePath(path).parts or _LOOSE_JSON.search(PurePath(path).name) is not None


def _join_concerned(before: str, after: str, lines: Collection[int]) -> str:
    """Return the new lines and the lines that do not parse."""
    old_lines = set(before.split("\n"))
    return "\n".join(
        line for number, line in enumerate(after.split("\n"), start=1) if number in lines or line not in old_lines
    )


def _loses_brackets(ending: str, before: str, after: str) -> bool:
    """Return True if the brackets of a text no longer match. Preprocessor branches may open the same bracket twice, and
    an included file may close a bracket of another file."""
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
    code = _STYLE_WORD.sub("", text) if ending == ".css" else _strip_strings_and_comments(_LEXERS[ending], text)
    for sign in filter(signs.__contains__, code):
        if sign not in _OPENING:
            still_open.append(sign)
        elif not still_open or still_open.pop() != _OPENING[sign]:
            return False
    return not still_open


def _strip_strings_and_comments(language: str, text: str) -> str:
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


class SyntaxFlaw(Struct, frozen=True, kw_only=True):
    """A position that does not parse: its line (1-indexed), and the missing token ("" if a token is unexpected).

    `message`: the compiler's message for a position that parses.
    """

    line: int
    missing: str = ""
    message: str = ""


def find_flaws(path: str, text: str, *, limit: int = 20) -> tuple[SyntaxFlaw, ...] | None:
    """Find the syntax errors, in order; None if the language is unknown, the text is too long, or a parser failed."""
    try:
        return _find_flaws(path, text, limit)
    except Exception as fault:  # a fault of a third-party parser must not fail a write that has already happened
        save_crash_report(fault, "a check of syntax")
        return None


def _find_flaws(path: str, text: str, limit: int) -> tuple[SyntaxFlaw, ...] | None:
    root = parse_syntax(path, text)
    if root is None:
        return None
    flaws: list[SyntaxFlaw] = []
    waiting = [root] if root.has_error else []
    while waiting and len(flaws) < limit:
        node = waiting.pop()
        if node.is_missing or node.is_error:
            flaws.append(SyntaxFlaw(line=node.start_point[0] + 1, missing=node.type if node.is_missing else ""))
        else:
            waiting += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    return _filter_by_other_parsers(path, text, tuple(flaws))


def _filter_by_other_parsers(path: str, text: str, flaws: tuple[SyntaxFlaw, ...]) -> tuple[SyntaxFlaw, ...]:
    """Return the flaws that remain after asking parsers that accept more, or less, of a language than its grammar."""
    if path.endswith(".json"):
        return () if flaws and allows_loose_json(path) and is_valid_loose_json(path, text) else flaws
    if not path.endswith(_COMPILED) or len(text) > LARGEST:
        return flaws
    problem = find_compile_error(text)
    if flaws or problem is None:
        return flaws if problem is not None else ()
    # Code that our own Python does not parse may be written for a newer one.
    is_certain = isinstance(problem, IndentationError) or is_parsed_by_python(text)
    return (SyntaxFlaw(line=problem.lineno or 1, message=problem.msg),) if is_certain else ()


def find_new_flaws(path: str, before: str, after: str) -> tuple[SyntaxFlaw, ...]:
    """Find the flaws of `after` whose lines did not have them in `before`, in order; nothing for an unknown
    language."""
    now = find_flaws(path, after, limit=_ASKED) if before != after else ()
    if not now:
        return ()
    old_counts = Counter(_build_flaw_keys(before, find_flaws(path, before, limit=_ASKED) or ()))
    fresh = []
    for flaw, key in zip(now, _build_flaw_keys(after, now), strict=True):
        if old_counts[key]:
            old_counts[key] -= 1
        else:
            fresh.append(flaw)
    return tuple(fresh)


def _build_flaw_keys(text: str, flaws: Sequence[SyntaxFlaw]) -> list[tuple[str, str, str]]:
    bodies = split_lines(text).bodies
    rows = [bodies[flaw.line - 1].strip() if flaw.line <= len(bodies) else "" for flaw in flaws]
    return [(row, flaw.missing, flaw.message) for row, flaw in zip(rows, flaws, strict=True)]


def describe_first_flaw(path: str, before: str, after: str) -> str:
    """Describe the first flaw if `before` parsed and `after` is certainly broken, else ""."""
    if before == after or find_flaws(path, before, limit=1) != ():
        return ""
    flaws = find_flaws(path, after, limit=1)
    return describe_flaw(flaws[0]) if flaws and breaks_syntax(path, before, after, flaws) else ""


def breaks_syntax(path: str, before: str, after: str, flaws: Sequence[SyntaxFlaw]) -> bool:
    """Return True if `flaws` of `after` are certainly errors, and not syntax that the grammar does not cover."""
    earlier = {flaw.line for flaw in find_flaws(path, before, limit=_ASKED) or ()}
    try:
        if earlier and not is_certainly_broken(path, "", before, earlier):
            return False
        return is_certainly_broken(path, "" if earlier else before, after, {flaw.line for flaw in flaws})
    except Exception as fault:  # see `find_flaws`
        save_crash_report(fault, "a check of syntax")
        return False


def describe_flaw(flaw: SyntaxFlaw) -> str:
    """Describe a flaw with its line, for a model or a user."""
    message = flaw.message or (f"{flaw.missing!r} is missing" if flaw.missing else "this does not parse")
    return f"line {flaw.line}: {message}"
