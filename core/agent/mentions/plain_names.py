"""Names in a plain sentence: words that look like files or like symbols of a program.

A word looks like a file by a slash or an ending, like a symbol by the way programmers write (`camelCase`, `snake_case`,
`a.b`, `call()`, or between backticks). Any other word counts only beside a file that defines it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from core.agent.mentions.mention_syntax import TextSpan, blank_spans, iterate_fences

MAX_SCANNED: Final = 60_000  # characters of a prompt
MAX_NAMES: Final = 60  # of each kind
_IDENTIFIER = r"[A-Za-z_$][\w$]*"
_TRACEBACK: Final = re.compile(r"File \"([^\"\n]{1,400})\", line (\d{1,7})")
_PATH: Final = re.compile(
    r"(?<![\w/.@:\\-])((?:\.{0,2}/)?[\w+-][\w.+-]{0,200}(?:/[\w.+\-\[\]()]{0,200}[\w\])+-]){0,30})"
    r"(?::(\d{1,7})(?:-(\d{1,7}))?)?(?![\w/])"
)
_SYMBOL: Final = re.compile(rf"(?<![\w$@/.-])({_IDENTIFIER}(?:(?:\.|::|#){_IDENTIFIER})*)(\(\s*\))?")
_QUOTED: Final = re.compile(rf"`({_IDENTIFIER}(?:(?:\.|::|#){_IDENTIFIER})*)(?:\([^`\n]*\))?`")
_WRITTEN_AS_CODE: Final = re.compile(r"[a-z0-9$][A-Z]|[A-Za-z0-9$]_[A-Za-z0-9$]|^_+[a-z]|[A-Z]{2}[a-z]")
MAX_NAME: Final = 200  # characters
_PROSE: Final = frozenset(
    {
        "API", "e.g", "etc", "FIXME", "GitHub", "GitLab", "GraphQL", "i.e", "ID", "iOS", "JavaScript", "macOS", "MySQL",
        "next.js", "node.js", "OpenAPI", "PostgreSQL", "README", "SQLite", "TODO", "TypeScript", "URL", "vs", "vue.js",
        "WebAssembly", "WebSocket", "YouTube",
    }
)  # fmt: skip
_SHORT_WORDS: Final = frozenset(  # too common to be meant by themselves
    {
        "a", "all", "an", "and", "any", "are", "args", "array", "as", "at", "be", "bool", "bug", "but", "by", "call",
        "calls", "can", "class", "code", "config", "data", "default", "dict", "do", "does", "error", "false", "file",
        "files", "fix", "float", "for", "from", "function", "get", "has", "have", "how", "id", "if", "import", "in",
        "index", "init", "int", "into", "is", "it", "its", "key", "kwargs", "let", "like", "line", "lines", "list",
        "main", "make", "may", "method", "module", "my", "name", "new", "no", "none", "not", "null", "number",
        "object", "of", "off", "on", "one", "or", "our", "out", "package", "path", "print", "return", "returns",
        "run", "self", "set", "should", "so", "str", "string", "test", "tests", "text", "than", "that", "the", "then",
        "there", "this", "to", "true", "tuple", "type", "up", "use", "used", "using", "value", "was", "we", "were",
        "what", "when", "where", "which", "who", "why", "will", "with", "you", "your",
    }
)  # fmt: skip


class NamedPath(Struct, frozen=True):
    """A word like a file's path, and the lines behind it (1-indexed, 0 = none)."""

    name: str
    start: int = 0
    end: int = 0


class PlainNames(Struct, frozen=True, kw_only=True):
    """Words of a sentence, each once and in order. `symbols` are written as code, `words` are all others."""

    paths: tuple[NamedPath, ...] = ()
    symbols: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def find_plain_names(prompt: str, mentions: Iterable[str] = (), pasted_spans: Iterable[TextSpan] = ()) -> PlainNames:
    """Find the words of a prompt that may name something. `mentions` are taken out of it first; nothing is looked for
    in `pasted_spans` spans, and in fences only for the places of a traceback."""
    text = blank_spans(prompt, pasted_spans)[:MAX_SCANNED]
    for mention in sorted(mentions, key=len, reverse=True):
        text = text.replace(mention, " " * len(mention))
    paths = {match[1]: NamedPath(match[1], int(match[2]), int(match[2])) for match in _TRACEBACK.finditer(text)}
    text = blank_spans(text, iterate_fences(text))
    symbols = dict.fromkeys(match[1] for match in _QUOTED.finditer(text))
    words: dict[str, None] = {}
    for match in _PATH.finditer(text):
        name = match[1].rstrip(".+-")
        if "/" in name or "." in name.strip(".") or name.isupper() or name.istitle():
            start = int(match[2] or 0)
            paths.setdefault(name, NamedPath(name, start, int(match[3] or start)))
    for match in _SYMBOL.finditer(text):
        name = match[1]
        if len(name) > MAX_NAME or name in _PROSE or name.lower() in _PROSE:
            continue
        if match[2] or "." in name or "::" in name or "#" in name or _WRITTEN_AS_CODE.search(name):
            symbols.setdefault(name)
        elif len(name) > 1 and name.lower() not in _SHORT_WORDS:
            words.setdefault(name)
    return PlainNames(
        paths=tuple(paths.values())[:MAX_NAMES],
        symbols=tuple(symbols)[:MAX_NAMES],
        words=tuple(words)[: 5 * MAX_NAMES],
    )
