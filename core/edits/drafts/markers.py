"""Lines of a draft that stand for code that stays, and comments that say that something is removed.

A line that the file itself has is never a marker.
"""

from __future__ import annotations

import re

from core.patterns import compile_lazily

_OPEN = compile_lazily(
    r"""(?:\{/\*+|/\*+|//+!?|<!--|<%--|<%#|\{\{!--|\{\{/\*|\{#|\{-|\(\*|#+|--+|%+|;+|\.\.(?=\s+(?:[^\s.]|\.{3}\s*$))|(?:REM|rem)\b|\*|['"]{1,3})\s*"""
)
_CLOSE = compile_lazily(r"""\s*(?:\*+/\}{0,2}|%>|-->|--%>|--\}\}|#\}|-\}|\*\)|['"]{1,3})?\s*[,;]?$""")
_DOTS = compile_lazily(r"(?:\.{3,}|\.(?: \.){2,}|…|\[\.{3,}\]|\[…\])")
_RULES = compile_lazily(r"[-=~]{2,}\s*(.*[a-zA-Z].*?)\s*[-=~]{2,}")
_KEYWORD = compile_lazily(
    r"\b(?:existing|unchanged|remain\w*|rest|same|previous|other|others|omitted|keep|kept|original|as before|as is|"
    r"above|below|no changes?|not changed|stays?|code|here)\b",
    re.IGNORECASE,
)
_THING = (
    r"(?:code|content|contents|lines?|file|function|method|methods|functions|class|classes|imports?|module|body|"
    r"implementation|logic|section|sections|fields?|items?|entries|props?|properties|styles?|rules?|tests?|it|everything|"
    r"definitions?|document|part|parts)"
)
_STAYS = compile_lazily(
    rf"(?:(?:the |your )?(?:existing|unchanged|previous|remaining|original|other|same) {_THING}\b.{{0,40}}"
    rf"|(?:the )?(?:rest|remainder)(?: of (?:the |this )?.{{0,30}})?(?: .{{0,30}})?"
    r"|(?:there (?:are|is) )?no (?:further |other |more )?(?:changes?|modifications?|edits?)\b.{0,40}"
    r"|(?:nothing|not) (?:changes|changed|is changed)\b.{0,30}"
    r"|.{0,50}\b(?:stays?|remains?|is|are|left|kept)(?: exactly)?(?: the)? "
    r"(?:same|unchanged|unmodified|untouched|not (?:changed|modified|touched)|as is|as it is|as before)\b.{0,20}"
    r"|(?:unchanged|unmodified|untouched|same as (?:before|above)|as before|omitted|snip)"
    r"(?: (?:code|lines?|content|part|for .*|from .*))?"
    r"|(?:code|lines?|content) (?:is |are )?(?:omitted|unchanged|unmodified|untouched)(?: for brevity)?"
    rf"|(?:keep|leave)(?: the| all)? (?:(?:rest|everything)\b|(?:existing|remaining|other|same) {_THING}\b).{{0,40}}"
    rf"|continue with (?:the )?(?:existing|remaining|original) {_THING})[.:!]?",
    re.IGNORECASE,
)
_WHERE = r"(?: (?:here|before|after|above|below))?(?: this(?: \w+)?)?"
_BARE = compile_lazily(
    rf"(?:no (?:further |other )?changes?{_WHERE}"
    rf"|nothing (?:changes|changed|is changed){_WHERE}"
    rf"|(?:the )?(?:existing|unchanged|remaining) {_THING}(?: (?:here|above|below|unchanged|stays?|remains?))*"
    rf"|(?:the )?(?:rest|remainder)(?: of (?:the |this )?{_THING})?"
    r"(?: (?:is|are|stays?|remains?|left|the|as|it|same|unchanged|untouched|here|before|below))+"
    rf"|(?:the |this )?{_THING}(?: (?:above|below|before|after))? (?:is|are|stays?|remains?)(?: the)?"
    r" (?:unchanged|untouched|same)"
    r"|unchanged|unmodified|same as before|as before)[.:]?",
    re.IGNORECASE,
)
_REMOVED = compile_lazily(
    r"(?:(?P<what>.+?)\s+(?:(?:is|are|was|were|has been|have been|gets?|to be|will be|being)\s+)?"
    r"(?:now\s+)?(?:removed|deleted|dropped|gone)(?:\s+(?:here|now))?"
    r"|(?:removed?|deleted?|dropped|drop)\s*:?\s+(?P<thing>.+?))[.!]?$",
    re.IGNORECASE,
)
_BRACKETED = compile_lazily(r"[\[<(]([^\[\]<>]*[a-z][^\[\]<>]*)[\])>]", re.IGNORECASE)
_SPREAD = compile_lazily(r"\.{3}[\w.]+")
_BRACED = compile_lazily(r"(?P<head>.*\S\s*\{)\s*(?P<mark>/\*.*\*/|//.*|#.*|\.\.\.|…)\s*(?P<close>\}[;,)]*)?\s*")
_COLONED = compile_lazily(r"(?P<head>\s*(?:(?:async\s+)?def|class|if|for|while|with)\b.*:)\s*(?P<mark>\.\.\.|…|#.*)\s*")
_MAX_LENGTH = 120  # characters of a marker
_SENTENCE = 7  # words of a sentence


def is_marker(line: str) -> bool:
    """True if a line stands for code that is left out: `… existing code …` in any comment, or the same in words."""
    text = line.strip()
    if not text or len(text) > _MAX_LENGTH:
        return False
    inner, comment = _strip_comment(text)
    match = _BRACKETED.fullmatch(inner)
    if match and (comment or _DOTS.match(match[1].strip())):
        inner, comment = match[1].strip(), "#"
    inner = _RULES.sub(r"\1", inner)
    starts, ends = _DOTS.match(inner), re.search(rf"{_DOTS.pattern}$", inner)
    if starts or ends:
        words = _DOTS.sub(" ", inner).strip(" :.-\"'")
        if not words:
            return bool(comment) or text in ("...", "…", "[...]")
        if _is_code(words) or (not comment and _SPREAD.fullmatch(inner)):
            return False
        return bool((starts and ends) or _KEYWORD.search(words))
    return comment not in ("", '"', "'") and _STAYS.fullmatch(inner) is not None and not inner.endswith((";", "{", ")"))


def may_be_marker(line: str) -> bool:
    """True if a line that is no comment says that code is left out: it may be a marker, or a line of text."""
    text = line.strip()
    return 0 < len(text) <= _MAX_LENGTH and not is_marker(text) and _BARE.fullmatch(text) is not None


def may_be_remark(line: str) -> bool:
    """True if a line that looks like a marker without dots is long enough to be a sentence of a comment."""
    is_plain_marker = (
        is_marker(line) and not _DOTS.search(line) and not _BARE.fullmatch(_strip_comment(line.strip())[0])
    )
    return is_plain_marker and len(line.split()) >= _SENTENCE


def expand_elided_body(line: str, level: str) -> list[str]:
    """Split `run() { /* … existing code … */ }` into its lines. `level` is one level of indentation."""
    match = _BRACED.fullmatch(line) or _COLONED.fullmatch(line)
    if not match or not (match["mark"] in ("...", "…") or is_marker(match["mark"])):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    closing = match.groupdict().get("close")
    close = [indent + closing] if closing else []
    return [match["head"].rstrip(), indent + level + match["mark"].strip(), *close]


def parse_removal(line: str) -> str | None:
    """Parse the short subject of a comment that says that something is removed; None for any other line, such as a
    sentence that ends in "dropped"."""
    inner, comment = _strip_comment(line.strip())
    match = _REMOVED.fullmatch(inner) if comment else None
    if not match:
        return None
    subject = (match["what"] or match["thing"]).strip().strip("`'\"")
    name = re.sub(r"^(?:the|this|line|function|method|call to)\s+", "", subject, flags=re.IGNORECASE)
    return name if len(name.split()) < _SENTENCE - 1 else None


def _strip_comment(text: str) -> tuple[str, str]:
    """Return the text of a comment without its delimiters, and the opening delimiter; "" = it is no comment."""
    opening = _OPEN.match(text)
    rest = text[opening.end() :] if opening else text
    rest = _CLOSE.sub("", rest, count=1)
    if opening and opening[0].strip() in ('"', "'"):
        rest = re.sub(r"""["']\s*:.*$""", "", rest)
        inner_opening = _OPEN.match(rest)
        rest = _CLOSE.sub("", rest[inner_opening.end() :] if inner_opening else rest, count=1)
        opening = inner_opening or opening
    return rest.strip(), opening[0].strip() if opening else ""


def _is_code(words: str) -> bool:
    """True if the text next to the dots is code (a spread, a slice, a call) and not words."""
    return re.search(r"[=;{}\[\]]|\w\((?!\))|\)\s*=>", words) is not None


def has_code(draft: str) -> bool:
    """Return True if a draft has a line besides markers and empty ones."""
    return any(line.strip() and not is_marker(line) for line in draft.splitlines())
