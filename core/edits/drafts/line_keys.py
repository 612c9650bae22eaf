"""Keys of lines of code: the name that a line defines or the module that it imports, in any of the usual languages.

Two lines with the same key at the same depth are versions of one definition.
"""

from __future__ import annotations

import re
from typing import Final

from core.patterns import compile_lazily

_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|async|final|override|readonly|"
    r"pub(?:\([^)]*\))?|unsafe|extern|const|virtual|inline|sealed|partial|declare|get|set)\s+)*"
)
_TYPE = r"[<\[*&:]*\w[\w<>\[\],.?*&:]*"  # not an operator alone: `: call(x)` and `a && call(x)` define nothing
_COLUMN = (
    r"(?i:integer|int\d*|uint\d*|bigint|smallint|serial|text|varchar|char|boolean|bool|date|timestamp\w*|datetime|"
    r"numeric|decimal|real|float\d*|double|uuid|jsonb?|string|error|byte|rune)"
)
_DEFINITIONS: Final = tuple(
    compile_lazily(pattern)
    for pattern in (
        rf"{_MODIFIERS}(?:data\s+|case\s+)?(?:def|func|fun|function\*?|fn|class|struct|interface|enum|trait|impl|module|namespace|"
        r"type|object|protocol|record|package|macro_rules!)\s+(?P<name>(?:\([^)]*\)\s*)?[\w$.:]+)",
        rf"{_MODIFIERS}(?:{_TYPE}\s+)*?(?P<name>[\w$~:]+)\s*\([^;]*\)\s*"
        r"(?:->\s*[^{]+|:\s*[^{]+|throws\s+[\w, .]+|const)?\s*\{",
        rf"{_MODIFIERS}(?:{_TYPE}\s+)+[*&]*(?P<name>[\w$~:]+)\([^;]*\)\s*(?:const|noexcept|override)?$",
    )
)
_BLOCK_CALL = compile_lazily(
    r"(?P<name>[\w$.]+\s*\(?\s*(?P<quote>[\"'`])(?:(?!(?P=quote)).)*(?P=quote)).*(?:[{(\[]|\bdo(?:\s*\|[^|]*\|)?|->)$"
)
_OTHERS: Final = tuple(
    compile_lazily(pattern)
    for pattern in (
        rf"{_MODIFIERS}(?:const|let|var|val|static|mut)\s+(?:mut\s+)?(?P<name>[\w$]+|\{{[^}}]*\}}|\[[^\]]*\])\s*[:=]",
        r"from\s+(?P<name>[\w.]+)\s+import\b",
        r"import\s+.*?\bfrom\s*(?P<name>['\"][^'\"]+['\"])",
        r"(?:import|use|using|#include|require|package|#define)\s*\(?\s*(?P<name>[\w.:/<>'\"*-]+)",
        rf"{_MODIFIERS}(?P<name>[\w.$-]+(?:\[[^\]]+\])?)\s*(?::\s*[\w\[\], .|]+)?\s*=(?!=|>)",
        rf"{_MODIFIERS}(?P<name>\"[^\"]+\"|'[^']+'|[\w-]+)\??\s*:(?!:)",
        rf"(?=\w)(?:{_TYPE}\s+)+[*&]*(?P<name>[\w$]+)(?:\[[^\]]*\])?\s*(?:;|=(?![=>])|\{{\s*get\b)",
        r"(?P<name>[^=(){}<>]+(?:\([^)]*\))?(?:\s+if\s+[^=]+)?)\s=>",
        r"(?P<name>@[\w-]+\s[^{]*)\{$",
        r"(?P<name>@[\w.]+)(?!\s*[-+*/|&]?=)",
        r"(?P<name>#!?\[\w+)",
        r"(?P<name>#{2,6}\s.+)",
        r"(?P<name>\[\[?[\w.\"' -]+\]\]?)$",
        r"(?P<name>[.#@]?[\w\[\]=\":>~+*, .#()-]+)\s*\{$",
        r"(?P<name></?[\w-]+)>?$",
        r"(?!<\w+ as\b)"  # a type in Rust
        r"(?P<name><[\w.-]+(?:\s+(?:id|name|class|className|key|href|src)=(?:\"[^\"]*\"|'[^']*'|\{[^}]*\}))?)[^/]*>?$",
        r"(?i:create|alter|drop)\s+(?i:unique\s+)?(?P<name>(?i:table|view|index|function)\s+[\w.\"`]+)",
        r"-\s+(?:name|id|key|uses)\s*:\s*(?P<name>[^@]+)",
        rf"(?P<name>[\w\"`]+)\s+[*\[\]]*{_COLUMN}\b(?!\s*\()",
    )
)
_RECEIVER = compile_lazily(r"^\((?:\w+\s+)?\*?(?P<type>[^)]*)\)\s*")
_STATEMENT = compile_lazily(
    r"(?:if|else|elif|for|while|switch|catch|return|try|finally|with|do|when|match|except|await|throw|new|yield|not|raise|"
    r"assert|delete|echo|go|defer|del|in|is|and|or|goto|print|select|insert|update)\b(?!\s*[:=]\s)"
)
_CASE = compile_lazily(r"case\s+(?P<name>.+?)\s*(?::|->|=>)")
_KINDS: Final = (
    ("case", _CASE),
    ("block", _BLOCK_CALL),
    *(("definition", pattern) for pattern in _DEFINITIONS),
    *((str(number), pattern) for number, pattern in enumerate(_OTHERS)),
)
CALL: Final = compile_lazily(r"(?P<callee>(?:await\s+)?[\w.$>:-]+\()(?P<given>.*)\)[;,]?")
_CALLED_ONCE: Final = compile_lazily(r"[\w.]*\b(?:listen|main|run|start|serve|exit|render|mount)\(")


def _name_receiver(match: re.Match[str]) -> str:
    """Return the type of a receiver: methods of one name differ by it."""
    return f"{match['type']}."


def parse_line_key(line: str) -> str | None:
    """Return the name that a line defines, with its kind ("definition load"); None = it defines nothing."""
    text = line.strip()
    if not text or _STATEMENT.match(text):
        return None
    for kind, pattern in _KINDS:
        if match := pattern.match(text):
            return f"{kind} {_RECEIVER.sub(_name_receiver, match['name'].strip())}"
    return None


def is_same_call(new: str, old: str) -> bool:
    """True if `new` calls the same function as `old` with the same arguments and more, or a function that is called
    once."""
    one, other = CALL.fullmatch(new.strip()), CALL.fullmatch(old.strip())
    if one is None or other is None or one["callee"] != other["callee"]:
        return False
    return one["given"].startswith(other["given"]) or _CALLED_ONCE.fullmatch(one["callee"]) is not None
