"""Apply a patch to a text: each hunk is looked for by its lines, wherever its header says that it is.

Line numbers and counts of a header only choose between places that fit equally. An anchor (`@@ def f():`) narrows the
search to what follows it. The hunks of a file apply in order, as one batch, on the rungs of the ladder that compare
whole lines; what they leave alone keeps the file's own bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.edits.errors import EditError, format_part
from core.edits.formats.patch_parser import FilePatch, PatchHunk, parse_patch
from core.edits.formats.target_file import select_for_file
from core.edits.matching.block_merge import MatchedBlock
from core.edits.matching.failures import build_ambiguity_error, build_not_found_error
from core.edits.matching.line_edit import LineEdit
from core.edits.matching.search_text import SearchText
from core.text.lines import trim_ending
from core.text.splices import Splice, apply_splices

_STEPS = (("trailing_space", False), ("indentation", False), ("look_alikes", True), ("spacing", True))


class PatchResult(NamedTuple):
    """`text` None: the file is deleted. `rungs`: how each hunk that changes lines was matched, in order."""

    text: str | None
    rungs: tuple[str, ...] = ()


def apply_patch(text: str | None, content: str, path: str = "") -> str:
    """Return the file at `path` (None: it is not there) after the patch, "" if deleted. Raises `EditError`."""
    files = parse_patch(content)
    mine = select_for_file(files, path)
    if not mine:
        named = ", ".join(each.path for each in files)
        raise EditError(f"The patch does not name {path}, but: {named}.", hint="Nothing was changed.")
    for each in mine:
        text = apply_file_patch(text, each).text
    return text or ""


def apply_file_patch(text: str | None, patch: FilePatch) -> PatchResult:
    """Apply one file's changes to its text (None: it is not there). Raises `EditError`."""
    match patch.action:
        case "delete":
            return PatchResult(None)
        case "add":
            if text:
                raise EditError(f"{patch.path} is to be added, but it exists.", hint="Update it. Nothing was changed.")
            return PatchResult(_build_new_text(patch.hunks))
        case "update":
            if text is None:
                raise EditError(f"{patch.path} is to be updated, but there is no such file.", hint="Add it instead.")
            return apply_hunks(text, patch.hunks)


def _build_new_text(hunks: Sequence[PatchHunk]) -> str:
    text = _join_closed([row for hunk in hunks for sign, row in hunk.rows if sign == "+"])
    return text.removesuffix("\n") if hunks and hunks[-1].is_new_open else text


def apply_hunks(text: str, hunks: Sequence[PatchHunk]) -> PatchResult:
    """Apply all hunks or none. Raises `EditError` that names the hunk."""
    search_text = SearchText(text)
    splices: list[Splice] = []
    rungs: list[str] = []
    cursor = 0
    for number, hunk in enumerate(hunks, start=1):
        try:
            splice, rung = _place_hunk(search_text, hunk, cursor)
        except EditError as error:
            raise error.name_part(format_part("Hunk", number, len(hunks))) from error
        splices.append(splice)
        rungs.append(rung)
        cursor = splice.end
    done = apply_splices(text, splices)
    return PatchResult(_fit_final_newline(text, done, hunks), tuple(rungs))


def _fit_final_newline(text: str, done: str, hunks: Sequence[PatchHunk]) -> str:
    """Change the final newline only when a hunk says so."""
    last = hunks[-1] if hunks else None
    if last is None or last.is_old_open == last.is_new_open:
        return done
    if last.is_new_open:
        return trim_ending(done)
    return done if done.endswith("\n") or text.endswith("\n") else f"{done}\n"


def _place_hunk(search_text: SearchText, hunk: PatchHunk, cursor: int) -> tuple[Splice, str]:
    old = [row for sign, row in hunk.rows if sign in " -"]
    new = [row for sign, row in hunk.rows if sign in " +"]
    first = search_text.lines.find_line(cursor) if cursor < len(search_text.text) else len(search_text.lines)
    first, anchored = _find_anchored(search_text, hunk, first, needed=not any(row.strip() for row in old))
    if not any(row.strip() for row in old):
        return _build_insertion(search_text, hunk, new, first if anchored else None), "exact"
    edit = LineEdit(search_text, _join_closed(old), _join_closed(new))
    for fold, skip_blank in _STEPS:
        blocks = [block for block in edit.find_blocks(fold, skip_blank) if block.first >= first]
        blocks = [block for block in blocks if not hunk.is_at_end or _is_at_end(search_text, block)]
        shifts = [(block, shift) for block in blocks if (shift := edit.deduce_shift(block)) is not None]
        if shifts:
            chosen = _choose_block(search_text, hunk, [block for block, _ in shifts], fold, anchored=anchored)
            same = all(given == present for given, present in edit.pair_lines(chosen))
            shift = next(shift for block, shift in shifts if block is chosen)
            return edit.build_splice(chosen, shift), "exact" if same else fold
    raise build_not_found_error(search_text, _join_closed(old))


def _choose_block(
    search_text: SearchText, hunk: PatchHunk, blocks: Sequence[MatchedBlock], fold: str, *, anchored: bool
) -> MatchedBlock:
    if len(blocks) == 1 or anchored:
        return blocks[0]
    if hunk.is_at_end:
        return blocks[-1]
    if hunk.line is not None:
        gaps = sorted((abs(block.first + 1 - hunk.line), index) for index, block in enumerate(blocks))
        if gaps[0][0] * 3 <= gaps[1][0]:
            return blocks[gaps[0][1]]
    raise build_ambiguity_error(search_text, [block.first + 1 for block in blocks], fold)


def _is_at_end(search_text: SearchText, block: MatchedBlock) -> bool:
    return not any(body.strip() for body in search_text.lines.bodies[block.last + 1 :])


def _find_anchored(search_text: SearchText, hunk: PatchHunk, first: int, *, needed: bool) -> tuple[int, bool]:
    """The line from which a hunk is looked for, and True if its anchors tell that. Unless they are `needed`, as the
    hunk has no lines that can be found without them, a wrong anchor counts for nothing."""
    place = first
    for anchor in hunk.anchors:
        try:
            place = _find_anchor(search_text, anchor, place)
        except EditError:
            if needed:
                raise
            return first, False
    return place, bool(hunk.anchors)


def _find_anchor(search_text: SearchText, anchor: str, first: int) -> int:
    """The line of the first place, from `first` on, that an anchor names. Raises `EditError`."""
    wanted = anchor.strip()
    rows = [(number, body.strip()) for number, body in enumerate(search_text.lines.bodies) if number >= first]
    for same in (str.__eq__, str.startswith, str.__contains__):
        for number, row in rows:
            if same(row, wanted):
                return number
    raise EditError(
        f"The line that @@ names was not found: {wanted[:120]!r}.",
        hint="Copy a line of the file after @@, or leave it out. Nothing was changed.",
    )


def _build_insertion(search_text: SearchText, hunk: PatchHunk, new: Sequence[str], first: int | None) -> Splice:
    """Place a hunk that only adds lines: after its anchor, at its line, or at the end of the file."""
    added = [row for sign, row in hunk.rows if sign == "+"] or list(new)
    lines, end = search_text.lines, search_text.lines.find_dominant_ending()
    place = len(lines) if hunk.line is None or hunk.is_at_end else min(hunk.line, len(lines))
    place = place if first is None else first + 1
    offset = lines.starts[place] if place < len(lines) else len(search_text.text)
    text = "".join(f"{row}{end}" for row in added)
    if place >= len(lines) and lines.bodies and not lines.ends[-1]:
        return Splice(offset, offset, end + text.removesuffix(end))
    return Splice(offset, offset, text)


def _join_closed(rows: Sequence[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
