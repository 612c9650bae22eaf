"""The rungs that compare characters and not lines: text that was trimmed, escaped, reflowed or written in other case.

Every rung returns the splices of all its matches; none guesses between two.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterator

from core.edits.matching.search_text import ENTITY, SearchText
from core.patterns import compile_lazily
from core.text.lines import Splice, carry_endings, diff_lines, find_ending_near

_ESCAPED = compile_lazily(r"""\\([ntr'"`$\\/])""")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r"}
_FENCED = compile_lazily(r"\s*```[\w+-]*\n(.*?)\n?```\s*", re.DOTALL)
_TOKEN = compile_lazily(r"\w+|\W")
_RUN = compile_lazily(r"\S+")
_MIN_CHARACTERS = 10  # of a text to match leniently
_QUOTES = "\"'`"


def strip_escapes(old: str, new: str) -> tuple[str, str] | None:
    """Remove one level of the backslash escapes of `old` from both texts; None = it has none, or `new` is ambiguous."""
    kinds = set(_ESCAPED.findall(old))
    if "\\" not in kinds and "\\\\" in new:
        return None  # these two backslashes may be one
    return (_unescape(old, kinds), _unescape(new, kinds)) if kinds else None


def resolve_entities(old: str, new: str) -> tuple[str, str] | None:
    """Resolve HTML entities in both texts; None when there is none in `old`."""
    return (html.unescape(old), html.unescape(new)) if ENTITY.search(old) else None


def strip_fence(old: str, new: str) -> tuple[str, str] | None:
    """Remove the fence around both texts; None = `old` has none."""
    old_match, new_match = _FENCED.fullmatch(old), _FENCED.fullmatch(new)
    return (old_match[1], new_match[1] if new_match else new) if old_match else None


def _unescape(text: str, kinds: set[str]) -> str:
    return _ESCAPED.sub(lambda match: _PLAIN.get(match[1], match[1]) if match[1] in kinds else match[0], text)


def find_line_ends(search_text: SearchText, old: str, new: str) -> list[Splice]:
    """Find matches of text whose first line lacks its beginning: it follows white space or other words."""
    core = old.removesuffix("\n")
    splices = []
    for start in find_occurrences(search_text.text, core):
        end = start + len(core)
        after = search_text.text[end : end + 2]
        if start and search_text.text[start - 1] in " \t" and (not after or after[0] == "\n" or after == "\r\n"):
            replacement = carry_endings(core, new.removesuffix("\n"), find_ending_near(search_text.text, end))
            splices.append(Splice(start, end, replacement))
    return splices


def find_trimmed(search_text: SearchText, old: str, new: str) -> list[Splice]:
    """Find matches of the text without the white space around it, which both sides lose."""
    core = old.strip()
    if not core or core == old:
        return []
    lead, trail = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
    replacement = new.removeprefix(lead)
    replacement = replacement.removesuffix(trail) if trail else replacement
    ends = ((start, start + len(core)) for start in find_occurrences(search_text.text, core))
    return [
        Splice(start, end, carry_endings(core, replacement, find_ending_near(search_text.text, end)))
        for start, end in ends
        if _is_whole_words(search_text.text, start, end)
    ]


def find_other_case(search_text: SearchText, old: str, new: str) -> list[Splice]:
    """Find matches in other capitals, of several words only, as a word in other case is often another name. Unchanged
    words keep the capitals of the file, and so does a word of the old text in a new line."""
    core = old.strip("\n")
    if len(core) < _MIN_CHARACTERS or len(re.findall(r"\w+", core)) < 2:
        return []
    pattern = re.compile(re.escape(core), re.IGNORECASE)
    replacement = new.strip("\n") if core != old else new
    spans = (match.span() for match in pattern.finditer(search_text.text))
    return [
        Splice(start, end, _carry_case(core, search_text.text[start:end], replacement))
        for start, end in spans
        if _is_whole_words(search_text.text, start, end)
    ]


def _carry_case(old: str, present: str, new: str) -> str:
    """Return `new`, which was written for `old`, adapted to the capitals of `present`."""
    old_tokens, file_tokens, new_tokens = (_TOKEN.findall(text) for text in (old, present, new))
    if len(old_tokens) != len(file_tokens):
        return new
    names: dict[str, set[str]] = {}
    for one, other in zip(old_tokens, file_tokens, strict=True):
        names.setdefault(one, set()).add(other)
    parts: list[str] = []
    for tag, i1, i2, j1, j2 in diff_lines(old_tokens, new_tokens):
        if tag == "equal":
            parts += file_tokens[i1:i2]
        else:
            parts += (min(names[word]) if len(names.get(word, ())) == 1 else word for word in new_tokens[j1:j2])
    return "".join(parts)


def find_reflowed(search_text: SearchText, old: str, new: str) -> list[Splice]:
    """Find matches that differ in white space between characters and in line breaks. Words that are separate in `old`
    have to be separate in the match; in a string literal only a space between words may be missing from `old`."""
    needle = "".join(old.split())
    if len(needle) < _MIN_CHARACTERS:
        return []
    starts, joined_text = _join_runs(search_text.text)
    splices = []
    for occurrence in find_occurrences(joined_text, needle):
        start = _resolve_offset(starts, occurrence)
        end = _resolve_offset(starts, occurrence + len(needle) - 1) + 1
        region = search_text.text[start:end]
        if _strip_filled(old) == _strip_filled(region) != [old.strip()]:
            continue  # only indentation and blank lines differ, so the indentation of the new lines is unknown
        if _is_whole_words(search_text.text, start, end) and _is_spaced_alike(old.strip(), region):
            replacement = new.strip() if old != old.strip() else new
            splices.append(
                Splice(start, end, carry_endings(region, replacement, find_ending_near(search_text.text, end)))
            )
    return splices


def _strip_filled(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _join_runs(text: str) -> tuple[list[tuple[int, int]], str]:
    """Return (position in the joined text, offset in the text) of every run without white space, and the joined
    runs."""
    starts, parts, position = [], [], 0
    for match in _RUN.finditer(text):
        starts.append((position, match.start()))
        parts.append(match[0])
        position += len(match[0])
    return starts, "".join(parts)


def _resolve_offset(starts: list[tuple[int, int]], position: int) -> int:
    run_start, offset = starts[bisect_right(starts, (position, len(starts) and starts[-1][1] + 1)) - 1]
    return offset + position - run_start


def _is_spaced_alike(old: str, region: str) -> bool:
    gaps = zip(_iterate_gaps(old), _iterate_gaps(region), strict=True)
    return all(
        has_old_space == has_space or (has_space if left.isalnum() and right.isalnum() else not is_quoted)
        for (left, right, has_old_space, _), (_, _, has_space, is_quoted) in gaps
    )


def _iterate_gaps(text: str) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield every two visible neighbours with two flags: white space is between them, and they are in a string."""
    before, space, quote = "", False, ""
    for letter in text:
        if letter.isspace():
            space = True
            quote = "" if letter == "\n" else quote
            continue
        if before:
            yield before, letter, space, bool(quote)
        if letter in _QUOTES and (not quote or letter == quote):
            quote = "" if quote else letter
        before, space = letter, False


def _is_whole_words(text: str, start: int, end: int) -> bool:
    """True if neither end of the region cuts a word."""
    edges = (text[start - 1 : start + 1] if start else "", text[end - 1 : end + 1])
    return not any(len(edge) == 2 and all(letter.isalnum() or letter == "_" for letter in edge) for edge in edges)


def find_occurrences(text: str, needle: str, *, whole_lines: bool = False) -> Iterator[int]:
    """Yield the non-overlapping positions of a text. `whole_lines`: at the start of a line only."""
    position = text.find(needle)
    while position >= 0:
        fits = not whole_lines or position == 0 or text[position - 1] == "\n"
        if fits:
            yield position
        position = text.find(needle, position + (len(needle) if fits else 1))
