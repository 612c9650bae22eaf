"""Bytes of a file that are no characters: shown as U+FFFD, and put back where they were when the text was edited.

A model (or a screen) can't see such a byte, so it can't name it either: whatever it wrote for lines that stay
carries the mark that it was shown. Lines that did not change get their bytes back as they are; in those that
changed, a mark is known by what stands around it. What can't be told is refused, never guessed.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from core.edits.errors import EditError
from core.text.lines import count_shared_ends, split_whole_lines
from core.text.well_formed import REPLACEMENT

_BYTE = re.compile("[\udc80-\udcff]")
_MARK = re.compile(f"[{REPLACEMENT}\udc80-\udcff]")
_RUN = re.compile(f"{REPLACEMENT}+")
_CONTEXT = 2  # characters that stay around a mark by which it is known again


def mask_bytes(raw: str) -> str:
    """Return the text with a mark for each byte; it has as many characters as before."""
    return _BYTE.sub(REPLACEMENT, raw)


def find_bytes(raw: str) -> list[str]:
    """Return the bytes of a text that are no characters, as it has them."""
    return _BYTE.findall(raw)


def restore_bytes(raw: str, text: str) -> str:
    """Return `text`, an edit of `mask_bytes(raw)`, with the bytes of `raw`. Raises `EditError`."""
    old, new = split_whole_lines(mask_bytes(raw)), split_whole_lines(text)
    bytes_of = split_whole_lines(raw)
    head, tail = count_shared_ends(old, new)
    output = bytes_of[:head]
    middle = old[head : len(old) - tail], new[head : len(new) - tail]
    for tag, first, last, start, stop in SequenceMatcher(None, *middle, autojunk=False).get_opcodes():
        raw_lines = bytes_of[head + first : head + last]
        output += (
            raw_lines if tag == "equal" else [_restore_changed("".join(raw_lines), "".join(middle[1][start:stop]))]
        )
    return "".join([*output, *bytes_of[len(old) - tail :]])


def _restore_changed(raw: str, text: str) -> str:
    if REPLACEMENT not in text:
        return text
    marks = _MARK.findall(raw)
    if len(set(marks)) == 1 and len(marks) >= text.count(REPLACEMENT):
        return text.replace(REPLACEMENT, marks[0])
    characters, unknown = list(text), {run.start(): run.end() for run in _RUN.finditer(text)}
    for raw_start, start, size in SequenceMatcher(None, mask_bytes(raw), text, autojunk=False).get_matching_blocks():
        run, shift = text[start : start + size], raw_start - start
        for first, last in list(unknown.items()):
            if start <= first and last <= start + size and _is_whole(raw, run, shift, first, last):
                characters[first:last] = raw[shift + first : shift + last]
                del unknown[first]
    if unknown:
        raise EditError(
            f"Some {REPLACEMENT} of the new text can't be told: in the file they are bytes that are no UTF-8.",
            hint=f"Nothing was changed. Leave lines with {REPLACEMENT} out of the edit, or repeat what stands around "
            "them as it is; write no new one.",
        )
    return "".join(characters)


def _is_whole(raw: str, run: str, shift: int, first: int, last: int) -> bool:
    """True if the marks [first, last) are all that stand together in `raw`, with words around them that name one
    place."""
    around = sum(not character.isspace() and character != REPLACEMENT for character in run)
    before, after = raw[shift + first - 1 : shift + first], raw[shift + last : shift + last + 1]
    matches = re.finditer(f"(?={re.escape(run)})", mask_bytes(raw))
    places = {raw[match.start() : match.start() + len(run)] for match in matches}
    return around >= _CONTEXT and len(places) <= 1 and not _MARK.match(before) and not _MARK.match(after)
