"""Apply a patch to a text: each hunk is looked for by its lines, wherever its header says that it is.

Line numbers and counts of a header only choose between places that fit equally. An anchor (`@@ def f():`) narrows the
search to what follows it. The hunks of a file apply in order, as one batch, on the rungs of the ladder that compare
whole lines; what they leave alone keeps the file's own bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.edits.candidates import EditError, ambiguous, unmatched
from core.edits.haystack import Haystack
from core.edits.line_edit import LineEdit, Splice
from core.edits.lines import line_number
from core.edits.matching import spliced
from core.edits.patch_reader import FilePatch, Hunk, parse_patch
from core.edits.search_replace import same_file
from core.edits.transplant import Block

_STEPS = (("trailing_space", False), ("indentation", False), ("look_alikes", True), ("spacing", True))


class Patched(NamedTuple):
    """`text` None: the file is deleted. `rungs`: how each hunk that changes lines was matched, in order."""

    text: str | None
    rungs: tuple[str, ...] = ()


def edit_patch(text: str | None, content: str, path: str = "") -> str:
    """The file at `path` (None: it is not there) after the patch; "" when the patch deletes it. Raises `EditError`."""
    files = parse_patch(content)
    mine = [each for each in files if not path or same_file(each.path, path)]
    if not mine:
        mine = list(files) if len({each.path for each in files}) == 1 else []
    if not mine:
        named = ", ".join(each.path for each in files)
        raise EditError(f"The patch does not name {path}, but: {named}.", hint="Nothing was changed.")
    for each in mine:
        text = apply_file_patch(text, each).text
    return text or ""


def apply_file_patch(text: str | None, patch: FilePatch) -> Patched:
    """What one file's changes make of it. Raises `EditError`."""
    match patch.action:
        case "delete":
            return Patched(None)
        case "add":
            if text:
                raise EditError(f"{patch.path} is to be added, but it exists.", hint="Update it. Nothing was changed.")
            return Patched(_new_text(patch.hunks))
        case "update":
            if text is None:
                raise EditError(f"{patch.path} is to be updated, but there is no such file.", hint="Add it instead.")
            return apply_hunks(text, patch.hunks)


def _new_text(hunks: Sequence[Hunk]) -> str:
    rows = [row for hunk in hunks for sign, row in hunk.rows if sign == "+"]
    text = "".join(f"{row}\n" for row in rows)
    return text.removesuffix("\n") if hunks and hunks[-1].new_open else text


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> Patched:
    """All hunks or none."""
    hay = Haystack(text)
    splices: list[Splice] = []
    rungs: list[str] = []
    cursor = 0
    for number, hunk in enumerate(hunks, start=1):
        try:
            splice, rung = _placed(hay, hunk, cursor)
        except EditError as error:
            where = f"Hunk {number} of {len(hunks)}: " if len(hunks) > 1 else ""
            raise EditError(where + error.message, hint=error.hint, candidates=error.candidates) from error
        splices.append(splice)
        rungs.append(rung)
        cursor = splice.end
    done = spliced(text, splices)
    return Patched(_ended(text, done, hunks), tuple(rungs))


def _ended(text: str, done: str, hunks: Sequence[Hunk]) -> str:
    """The final newline is changed only when a hunk says so."""
    last = hunks[-1] if hunks else None
    if last is None or last.old_open == last.new_open:
        return done
    if last.new_open:
        return done.removesuffix("\n").removesuffix("\r")
    return done if done.endswith("\n") or text.endswith("\n") else f"{done}\n"


def _placed(hay: Haystack, hunk: Hunk, cursor: int) -> tuple[Splice, str]:
    old = [row for sign, row in hunk.rows if sign in " -"]
    new = [row for sign, row in hunk.rows if sign in " +"]
    first = hay.lines.at(cursor) if cursor and cursor < len(hay.text) else (0 if not cursor else len(hay.lines))
    first, anchored = _anchored(hay, hunk, first, needed=not any(row.strip() for row in old))
    if not any(row.strip() for row in old):
        return _insertion(hay, hunk, new, first if anchored else None), "exact"
    edit = LineEdit(hay, _closed(old), _closed(new))
    for fold, skip_blank in _STEPS:
        blocks = [
            block
            for block in edit.blocks(fold, skip_blank)
            if block.first >= first and (not hunk.at_end or _reaches_end(hay, block))
        ]
        blocks = [block for block in blocks if edit.shift(block) is not None]
        if blocks:
            chosen = _chosen(hay, hunk, blocks, fold, anchored=anchored)
            same = all(given == present for given, present in edit.pairs(chosen))
            return _spliced(edit, chosen), "exact" if same else fold
    raise unmatched(hay, _closed(old))


def _spliced(edit: LineEdit, block: Block) -> Splice:
    shift = edit.shift(block)
    if shift is None:
        raise unmatched(edit.hay, _closed(edit.given))
    return edit.splice(block, shift)


def _chosen(hay: Haystack, hunk: Hunk, blocks: Sequence[Block], fold: str, *, anchored: bool) -> Block:
    if len(blocks) == 1 or anchored:
        return blocks[0]
    if hunk.at_end:
        return blocks[-1]
    named = [block for block in blocks if block.first + 1 == hunk.line]
    if len(named) == 1:
        return named[0]
    if hunk.line is not None:
        line = hunk.line
        near = sorted(blocks, key=lambda block: abs(block.first + 1 - line))
        gaps = [abs(block.first + 1 - line) for block in near[:2]]
        if gaps[0] * 3 <= gaps[1]:
            return near[0]
    raise ambiguous(hay, [line_number(hay.text, hay.lines.starts[block.first]) for block in blocks], fold)


def _reaches_end(hay: Haystack, block: Block) -> bool:
    return not any(body.strip() for body in hay.lines.bodies[block.last + 1 :])


def _anchored(hay: Haystack, hunk: Hunk, first: int, *, needed: bool) -> tuple[int, bool]:
    """The line from which a hunk is looked for, and whether its anchors tell that; a wrong anchor counts for nothing
    when the hunk has lines that can be found without it."""
    place = first
    for anchor in hunk.anchors:
        try:
            place = _after_anchor(hay, anchor, place)
        except EditError:
            if needed:
                raise
            return first, False
    return place, bool(hunk.anchors)


def _after_anchor(hay: Haystack, anchor: str, first: int) -> int:
    """The line of the first place, from `first` on, that an anchor names."""
    wanted = anchor.strip()
    bodies = hay.lines.bodies
    for same in (str.__eq__, str.startswith, str.__contains__):
        for number in range(first, len(bodies)):
            if same(bodies[number].strip(), wanted):
                return number
    raise EditError(
        f"The line that @@ names was not found: {wanted[:120]!r}.",
        hint="Copy a line of the file after @@, or leave it out. Nothing was changed.",
    )


def _insertion(hay: Haystack, hunk: Hunk, new: Sequence[str], first: int | None) -> Splice:
    """Where a hunk that only adds lines belongs: after its anchor, at its line, or at the end of the file."""
    added = [row for sign, row in hunk.rows if sign == "+"] or list(new)
    lines, end = hay.lines, hay.lines.dominant()
    if first is not None:
        place = first + 1
    elif hunk.line is not None and not hunk.at_end:
        place = min(hunk.line, len(lines))
    else:
        place = len(lines)
    offset = lines.starts[place] if place < len(lines) else len(hay.text)
    text = "".join(f"{row}{end}" for row in added)
    if place >= len(lines) and lines.bodies and not lines.ends[-1]:
        return Splice(offset, offset, end + text.removesuffix(end))
    return Splice(offset, offset, text)


def _closed(rows: Sequence[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
