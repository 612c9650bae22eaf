"""Names in a prompt: the syntax of mentions, and plain words that look like files or symbols.

A mention is `@name`, `@"a name"`, with lines as `:10`, `:10-20` or `#L10-20` after it, or `@https://…`. Nothing is a
mention between backticks, in a fence, in pasted or piped text, or after a letter (an e-mail address). A mention that
names nothing may plainly be something else (a decorator, a package, a version); otherwise it is an error of the user.

A plain word looks like a file by a slash or an ending, like a symbol by its spelling (`camelCase`,
`snake_case`, `a.b`, `call()`, or between backticks). Any other word counts only next to a file that defines it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from core.languages import detect_language
from core.patterns import compile_lazily
from core.text.markup import Fence, track_fence

SPECIAL_WORDS: Final = {
    "diff": "pending changes",
    "branch": "what this branch changes since it left the main one",
    "terminal": "output of the last command or job",
    "plan": "the current plan, or @plan:NAME",
    "session": "a summary of the previous session, or @session:ID",
    "rule": "a rule of the project: @rule:NAME",
    "agent": "a subagent to do it: @agent-NAME",
}
SOURCES: Final = frozenset({"plan", "session", "rule", "terminal", "agent"})  # special words that take `:NAME`
_DATA_ENDINGS: Final = frozenset(
    {"txt", "log", "csv", "tsv", "lock", "png", "jpg", "jpeg", "gif", "webp", "svg", "pdf"}
)
# Words after `@` in code and prose that are no mentions, unless the project has such a name.
_OTHER_WORDS: Final = frozenset(
    {
        "abstractmethod", "apply", "author", "Autowired", "Bean", "beta", "cached_property", "channel", "classmethod",
        "Component", "container", "dataclass", "deprecated", "Deprecated", "everyone", "final", "font-face", "here",
        "import", "Inject", "Injectable", "Input", "jsx", "keyframes", "latest", "layer", "media", "next", "NotNull",
        "Nullable", "Output", "overload", "Override", "override", "param", "params", "property", "return", "returns",
        "see", "since", "staticmethod", "supports", "tailwind", "template", "Test", "throws", "ts-expect-error",
        "ts-ignore", "ts-nocheck", "typedef",
    }
)  # fmt: skip
_MENTION: Final = compile_lazily(
    r"(?<![\w@/.+-])@(?:(https?://[^\s\"'`<>]{1,4000})|\"([^\"\n]{1,400})\"|([^\s\"'`<>|,;()\[\]{}@]{1,400}))"
)
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_SUFFIX: Final = compile_lazily(r"(?::(\d{1,7})(?:-(\d{1,7})|:\d{1,5})?|#L(\d{1,7})(?:-L?(\d{1,7}))?)")
_LAST_SUFFIX: Final = compile_lazily(rf"{_SUFFIX.pattern}$")
_UNFINISHED_LINES: Final = compile_lazily(r"(?<=.)(?::(?:\d+(?:-\d*)?)?|#(?:L(?:\d+(?:-L?\d*)?)?)?)$")
_SPAN: Final = compile_lazily(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_END_OF_PIPED: Final = "\n</stdin>"
_PIPED: Final = compile_lazily(rf"<stdin>\n.*?{_END_OF_PIPED}", re.DOTALL)
_DOTTED: Final = compile_lazily(r"[a-z_]\w*(?:\.\w+)+")
_PACKAGE: Final = compile_lazily(r"[a-z0-9~][a-z0-9._~-]*/[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*")
_CODE_LINE: Final = compile_lazily(
    r"\s*(?:@|def |async |class |export |public |private |protected |static |abstract |final |function |func |fn |"
    r"interface |enum |let |const |var |val |readonly |pub )"
)
_NOT_NEWLINE: Final = compile_lazily(r"[^\n]")
NO_LINE: Final = -1
"""The start of a mention with line 0, as opposed to `start` 0, which is the whole file."""
MAX_PARSED: Final = 200  # mentions of a prompt
MAX_INDENT: Final = 200  # characters before and after a decorator on its line
TextSpan = tuple[int, int]
MAX_SCANNED: Final = 60_000  # characters of a prompt
MAX_NAMES: Final = 60  # of one kind
_IDENTIFIER = r"[A-Za-z_$][\w$]*"
_TRACEBACK: Final = compile_lazily(r"File \"([^\"\n]{1,400})\", line (\d{1,7})")
_PATH: Final = compile_lazily(
    r"(?<![\w/.@:\\-])((?:\.{0,2}/)?[\w+-][\w.+-]{0,200}(?:/[\w.+\-\[\]()]{0,200}[\w\])+-]){0,30})"
    r"(?::(\d{1,7})(?:-(\d{1,7}))?)?(?![\w/])"
)
_SYMBOL: Final = compile_lazily(rf"(?<![\w$@/.-])({_IDENTIFIER}(?:(?:\.|::|#){_IDENTIFIER})*)(\(\s*\))?")
_QUOTED: Final = compile_lazily(rf"`({_IDENTIFIER}(?:(?:\.|::|#){_IDENTIFIER})*)(?:\([^`\n]*\))?`")
_WRITTEN_AS_CODE: Final = compile_lazily(r"[a-z0-9$][A-Z]|[A-Za-z0-9$]_[A-Za-z0-9$]|^_+[a-z]|[A-Z]{2}[a-z]")
MAX_NAME: Final = 200  # characters
_PROSE: Final = frozenset(
    {
        "API", "e.g", "etc", "FIXME", "GitHub", "GitLab", "GraphQL", "i.e", "ID", "iOS", "JavaScript", "macOS", "MySQL",
        "next.js", "node.js", "OpenAPI", "PostgreSQL", "README", "SQLite", "TODO", "TypeScript", "URL", "vs", "vue.js",
        "WebAssembly", "WebSocket", "YouTube",
    }
)  # fmt: skip
_SHORT_WORDS: Final = frozenset(  # too common to name a symbol
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


class Mention(Struct, frozen=True, kw_only=True):
    """A mention in a prompt. `text`: all of it, with `@`; `name`: without `@` and lines; `start`, `end`: 1-indexed
    lines, inclusive, 0 = the whole file; `is_code`: it may be a part of code or prose, if it names nothing."""

    text: str
    name: str
    start: int = 0
    end: int = 0
    is_code: bool = False


def parse_mentions(prompt: str, pasted_spans: Iterable[TextSpan] = ()) -> tuple[Mention, ...]:
    """Parse the distinct mentions of a prompt, in order. `pasted_spans`: spans without mentions."""
    if "@" not in prompt:
        return ()
    masked_text = mask_code(prompt, pasted_spans)
    mentions: dict[str, Mention] = {}
    seen_texts: set[str] = set()
    for match in _MENTION.finditer(masked_text):
        if match.group() in seen_texts or len(mentions) >= MAX_PARSED:
            continue
        seen_texts.add(match.group())
        if (mention := _build_mention(match, masked_text)) is not None:
            mentions.setdefault(mention.text, mention)
    return tuple(mentions.values())


def _build_mention(match: re.Match[str], text: str) -> Mention | None:
    address, quoted_name, plain = match.groups()
    if address is not None:
        address = _trim_address(address)
        return Mention(text=f"@{address}", name=address)
    end = match.end()
    if quoted_name is not None:
        if suffix := _SUFFIX.match(text, end):
            return _with_lines(match.group() + suffix.group(), quoted_name, suffix)
        suffix = _LAST_SUFFIX.search(quoted_name)
        return _with_lines(match.group(), quoted_name[: suffix.start()] if suffix else quoted_name, suffix)
    name = plain.rstrip(".:!?…")
    if not name or not (name[0].isalnum() or name[0] in "_./~"):
        return None
    suffix = _LAST_SUFFIX.search(name)
    mention = _with_lines(f"@{name}", name[: suffix.start()] if suffix else name, suffix)
    is_code = _is_other_word(name) or text[end : end + 1] == "(" or _is_above_code(text, match.start(), end)
    return Mention(text=mention.text, name=mention.name, start=mention.start, end=mention.end, is_code=is_code)


def is_address(name: str) -> bool:
    """True if a mention names a page of the web."""
    return name.startswith(("http://", "https://"))


def _trim_address(address: str) -> str:
    """Return an address without the punctuation of the sentence after it, such as a bracket that nothing opens."""
    while address:
        last = address[-1]
        opens = _PAIRS.get(last)
        if last in ".,:;!?…" or (opens and address.count(last) > address.count(opens)):
            address = address[:-1]
        else:
            break
    return address


def find_lines(text: str) -> str:
    """Return the line numbers at the end of a mention that is being typed, also incomplete ones, "" = none."""
    match = _UNFINISHED_LINES.search(text)
    return match.group() if match is not None and text[: match.start()] not in SOURCES else ""


def _with_lines(text: str, name: str, suffix: re.Match[str] | None) -> Mention:
    if suffix is None:
        return Mention(text=text, name=name)
    start = int(suffix[1] or suffix[3]) or NO_LINE
    return Mention(text=text, name=name, start=start, end=int(suffix[2] or suffix[4] or start))


def _is_other_word(name: str) -> bool:
    """True for a name that is plainly no file or symbol: decorators, packages, versions."""
    ending = name.rpartition("/")[2]
    has_language = "." in ending and (bool(detect_language(ending)) or ending.rpartition(".")[2] in _DATA_ENDINGS)
    if name[0].isdigit() or name in _OTHER_WORDS:
        return not has_language
    return not has_language and bool(_DOTTED.fullmatch(name) or _PACKAGE.fullmatch(name))


def _is_above_code(text: str, start: int, end: int) -> bool:
    """True if the mention is alone on its line, above a line of code: a decorator that was written without a fence."""
    line_start = text.rfind("\n", max(start - MAX_INDENT, 0), start) + 1
    line_end = text.find("\n", end, end + MAX_INDENT)
    if line_end < 0 or (not line_start and start > MAX_INDENT):
        return False
    if text[line_start:start].strip() or text[end:line_end].strip():
        return False
    return _CODE_LINE.match(text, line_end + 1) is not None


def mask_code(prompt: str, pasted_spans: Iterable[TextSpan] = ()) -> str:
    """Replace code, piped input and `pasted_spans` in the prompt by spaces; offsets and lines stay the same."""
    masked_text = blank_spans(prompt, pasted_spans)
    masked_text = blank_spans(masked_text, iterate_fences(masked_text))
    return _SPAN.sub(lambda match: _blank(match.group()), masked_text) if "`" in masked_text else masked_text


def blank_spans(prompt: str, spans: Iterable[TextSpan]) -> str:
    """Replace `spans` and piped input in the prompt by spaces."""
    parts: list[str] = []
    position = 0
    last = prompt.rfind(_END_OF_PIPED) + len(_END_OF_PIPED)  # A search beyond it would only read to the end.
    for start, end in sorted((*spans, *(match.span() for match in _PIPED.finditer(prompt, 0, last)))):
        begin, stop = max(start, position), min(end, len(prompt))
        if begin < stop:
            parts += [prompt[position:begin], _blank(prompt[begin:stop])]
            position = stop
    return "".join((*parts, prompt[position:]))


def _blank(text: str) -> str:
    return _NOT_NEWLINE.sub(" ", text)


def iterate_fences(text: str) -> Iterator[TextSpan]:
    """Iterate over the spans of fenced code, fences included."""
    fence: Fence | None = None
    begin = position = 0
    for line in text.split("\n"):
        after = track_fence(fence, line)
        if fence is None and after is not None:
            begin = position
        elif fence is not None and after is None:
            yield begin, position + len(line)
        fence = after
        position += len(line) + 1
    if fence is not None:
        yield begin, len(text)


class NamedPath(Struct, frozen=True):
    """A word like a file's path, and the lines after it (1-indexed, 0 = none)."""

    name: str
    start: int = 0
    end: int = 0


class PlainNames(Struct, frozen=True, kw_only=True):
    """The distinct words of a sentence, in order. `symbols` are written as code, `words` are all others."""

    paths: tuple[NamedPath, ...] = ()
    symbols: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def find_plain_names(prompt: str, mentions: Iterable[str] = (), pasted_spans: Iterable[TextSpan] = ()) -> PlainNames:
    """Find the words of a prompt that may name something. `mentions` are removed first; `pasted_spans` are not
    searched, and fences only for the files of a traceback."""
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
