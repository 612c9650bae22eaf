"""The lazy format: new code in which `… existing code …` stands for what stays as it is.

The draft is laid on the file by `lazy_align`; what stays keeps its own bytes. A draft without any marker is the whole
file, or definitions that the file has once, side by side. The result has to parse when the file did. What can't be
decided is refused with `EditError` (`undecided`), for the model that applies edits or for a second try.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from msgspec import Struct

from core.edits.errors import EditError
from core.edits.hunks.costs import compute_replacement_cost
from core.edits.hunks.draft_placement import place_draft
from core.edits.hunks.placed_draft import PlacedDraft
from core.edits.indentation import extract_indent
from core.edits.lazy.alignment import AlignmentStep, AlignmentUndecided, align, assign_scopes, mark_exposed
from core.edits.lazy.blank_lines import ResultRow, Spacing
from core.edits.lazy.checks import AlignedDraft, find_doubt
from core.edits.lazy.definitions import MAX_UNMENTIONED, replace_definition
from core.edits.lazy.draft_indentation import detect_indent_unit, fit_indentation
from core.edits.lazy.line_keys import parse_line_key
from core.edits.lazy.line_matches import DraftToken, measure_depth, measure_depths
from core.edits.lazy.markers import expand_elided_body, is_marker, may_be_marker, may_be_remark, parse_removal
from core.edits.syntax import find_flaws
from core.text.lines import TextLines, split_closed, split_lines, trim_ending

_HINT: Final = (
    "Nothing was changed. Put a line of the file before and after each change, mark every part that you leave out with "
    "... existing code ..., or use search_replace."
)
_MANY_PLACES: Final = "its parts fit in more than one place"
_PROSE: Final = (".md", ".mdx", ".markdown", ".rst")
_ONE_OF_A_NAME: Final = (".py", ".js", ".jsx", ".mjs", ".cjs", ".go", ".rs", ".rb", ".php", ".c", ".sh")
_NAMED: Final = re.compile(
    r"(?://|#|--|/\*|<!--)\s*(?:(?:file)?path|file(?:name)?)?\s*:?\s*(?P<path>[\w./\\-]+\.\w+)\s*(?:\*/|-->)?"
)
_SEGMENT: Final = 300_000
_VALUE_END = re.compile(r'(?:["\d}\]]|true|false|null)\s*$')
_ENTRY = re.compile(r'\s*(?:["{\[\d-]|true|false|null)')


class UndecidedEdit(EditError):
    """The draft has no one meaning for this file; whoever understands it can still make it into an edit."""


class LazyResult(Struct, frozen=True, kw_only=True):
    """`kept`, `added` and `removed` count lines that are not blank."""

    text: str
    kept: int
    added: int
    removed: int


def edit_lazy(text: str, code_edit: str, path: str = "") -> LazyResult:
    """Apply a draft with markers to a file. Raises `EditError`."""
    lines = split_lines(text)
    own = {line.strip() for line in lines.bodies}
    hunks = place_draft(lines, _normalise_draft(split_draft(code_edit, trimmed=False), own, path), open_ends=True)
    if hunks is not None and hunks.is_accepted and hunks.has_markers:
        return _check_placed(path, text, hunks)
    if hunks is not None and hunks.has_markers and not hunks.is_outline:
        raise build_undecided_error(_MANY_PLACES)
    check_remarks(split_draft(code_edit), own)
    new = _normalise_draft(split_draft(code_edit), own, path)
    if not any(line.strip() for line in new):
        raise EditError("The edit is empty.", hint="Give the new code, or delete the file. Nothing was changed.")
    marked = [(is_marker(line) or may_be_marker(line)) and line.strip() not in own for line in new]
    if not any(line.strip() for line in lines.bodies) and not any(marked):
        return LazyResult(text=_close_lines(new, lines), kept=0, added=len(new), removed=0)
    if not any(marked) and any(is_marker(line) for line in new) and not (hunks is not None and hunks.is_sure):
        raise build_undecided_error("its marker may be a line of the file")
    if not any(marked):
        return _apply_unmarked(path, text, new, hunks)
    tokens = _tokenise(new, marked, lines, path)
    done = splice_draft(lines, tokens, open_ends=True, prose=path.endswith(_PROSE))
    check_deletions(done)
    if hunks is not None and not hunks.allows(text, done.text):
        raise build_undecided_error(_MANY_PLACES)
    if path.endswith((".json", ".jsonc")):
        done = LazyResult(text=repair_commas(done.text), kept=done.kept, added=done.added, removed=done.removed)
    return _check_parses(path, text, done)


def check_deletions(done: LazyResult) -> None:
    """Raise `UndecidedEdit` when many lines would go that the draft does not mention."""
    if done.removed > MAX_UNMENTIONED and done.removed > 3 * done.added:
        raise build_undecided_error(f"it would delete {done.removed} lines that it does not mention")


def check_remarks(new: Sequence[str], own: Collection[str]) -> None:
    """Raise `UndecidedEdit` when what looks like a marker may be a part of a longer comment."""
    for row in new:
        if may_be_remark(row) and row.strip() not in own:
            raise build_undecided_error(
                f"{row.strip()[:80]!r} may stand for lines that stay, or be a part of a comment"
            )


def _check_placed(path: str, text: str, hunks: PlacedDraft) -> LazyResult:
    return _check_parses(path, text, LazyResult(text=hunks.text, kept=0, added=0, removed=0))


def _apply_unmarked(path: str, text: str, new: Sequence[str], hunks: PlacedDraft | None) -> LazyResult:
    """Apply a draft that leaves nothing out: the whole file, one definition, or a piece of the file that tells its
    place."""
    try:
        done = _check_parses(path, text, _replace_unmarked(text, split_lines(text), new, path))
    except UndecidedEdit:
        if hunks is None or not hunks.is_accepted:
            raise
        return _check_placed(path, text, hunks)
    if hunks is not None and hunks.is_accepted and hunks.text != done.text:
        raise build_undecided_error("it may be the whole file, a definition or a part of it")
    return done


def _normalise_draft(new: Sequence[str], own: Collection[str], path: str) -> list[str]:
    """Drop a comment on top that only names the file, and put every elided body on a line of its own. The first line
    of a longer comment is a part of that."""
    longer = len(new) > 1 and new[1][:1] == new[0][:1] and not new[1][:1].isalnum() and not is_marker(new[1])
    named = _NAMED.fullmatch(new[0]) if new and new[0].strip() not in own and not longer else None
    if named and path and PurePath(named["path"]).name == PurePath(path).name:
        new = new[1:]
    rows = [(line, expand_elided_body(line, detect_indent_unit(new))) for line in new]
    return [row for line, spread in rows for row in (spread if spread[0].strip() in own else [line])]


def build_undecided_error(why: str) -> UndecidedEdit:
    """An `UndecidedEdit` with the reason and the hint of this format."""
    return UndecidedEdit(f"The edit does not tell how it fits the file: {why}.", hint=_HINT)


def split_draft(draft: str, *, trimmed: bool = True) -> list[str]:
    """Split a draft into lines, without a fence around all of them and, unless not `trimmed`, blank lines at both
    ends."""
    lines = split_closed(draft)[0]
    filled = [index for index, line in enumerate(lines) if line.strip()]
    inner = lines[filled[0] : filled[-1] + 1] if filled else []
    if len(inner) > 1 and inner[0].lstrip().startswith("```") and inner[-1].strip() == "```":
        return split_draft("\n".join(inner[1:-1]), trimmed=trimmed)
    return inner if trimmed else lines


def _tokenise(new: Sequence[str], marked: Sequence[bool], lines: TextLines, path: str) -> list[DraftToken]:
    prose, sole = path.endswith(_PROSE), path.endswith(_ONE_OF_A_NAME)
    rows = fit_indentation(new, lines)
    depths = measure_depths(rows, prose=prose)
    placed = assign_scopes(
        [
            DraftToken("marker" if mark else "line", line, depth, is_sole=sole)
            for line, mark, depth in zip(rows, marked, depths, strict=True)
        ]
    )
    return mark_exposed(placed)


def tokenise_draft(new: Sequence[str], lines: TextLines) -> list[DraftToken]:
    """Tokenise a draft in which comments also say what is removed."""
    own = {line.strip() for line in lines.bodies}
    tokens = []
    for line in fit_indentation(new, lines):
        depth = measure_depth(line) if line.strip() else 0
        thing = None if line.strip() in own else parse_removal(line)
        if thing and any(compute_replacement_cost(line, each) is not None for each in lines.bodies):
            thing = None  # a version of a line of the file
        if thing:
            tokens.append(DraftToken("removal", line, depth, thing))
        elif line.strip() not in own and (is_marker(line) or may_be_marker(line)):
            tokens.append(DraftToken("marker", line, depth))
        else:
            tokens.append(DraftToken("line", line, depth))
    return assign_scopes(tokens)


def splice_draft(lines: TextLines, tokens: Sequence[DraftToken], *, open_ends: bool, prose: bool = False) -> LazyResult:
    """Make the text that the tokens make of the lines. Raises `EditError` when there is more than one."""
    try:
        rows = _align_rows(lines, tokens, measure_depths(lines.bodies, prose=prose), open_ends)
    except AlignmentUndecided:
        raise build_undecided_error("the new lines fit in more than one place") from None
    doubt = find_doubt(AlignedDraft(lines, tokens, rows))
    if doubt:
        raise build_undecided_error(doubt)
    spacing, fallback = Spacing(lines, tokens, open_ends=open_ends), lines.find_dominant_ending()
    out: list[tuple[str, str]] = []
    kept = last = 0
    for above, row in pairwise([None, *rows, None]):
        out += spacing.find_blanks_between(above, row)
        if row is None:
            break
        end = fallback if row.old is None else lines.ends[row.old] or fallback
        stays = row.old is not None and (row.token is None or _is_unchanged(tokens[row.token], lines.bodies[row.old]))
        kept += stays
        body = lines.bodies[row.old or 0] if stays else tokens[row.token or 0].text
        if row.old is None and above is not None and above.token is None and _wants_comma(lines, above.old or 0, body):
            out[last] = (out[last][0] + ",", out[last][1])
        last = len(out)
        out.append((body, end))
    filled = sum(bool(line.strip()) for line in lines.bodies)
    return LazyResult(text=_join_rows(out, lines), kept=kept, added=len(rows) - kept, removed=filled - kept)


def _align_rows(
    lines: TextLines, tokens: Sequence[DraftToken], depths: Sequence[int], open_ends: bool
) -> list[ResultRow]:
    """The filled lines of the result, from the alignment of the filled lines of both sides."""
    given = [index for index, token in enumerate(tokens) if token.text.strip()]
    there = [index for index, line in enumerate(lines.bodies) if line.strip()]
    steps = _align_segments(
        [lines.bodies[index] for index in there],
        [tokens[index] for index in given],
        [depths[index] for index in there],
        open_ends,
    )
    rows = [
        ResultRow(None if token is None else given[token], None if old is None else there[old]) for token, old in steps
    ]
    return [row for row in rows if row.token is None or tokens[row.token].kind == "line"]


def _wants_comma(lines: TextLines, old: int, line: str) -> bool:
    """True if a line of the file was the last of a list with commas between its entries, and a new entry follows."""
    around = [each for each in lines.bodies[max(0, old - 1) : old + 2] if each.strip()]
    if len(around) != 3 or not around[0].endswith(",") or not re.match(r"\s*[)\]}]", around[2]):
        return False
    same = measure_depth(around[0]) == measure_depth(around[1]) == measure_depth(line)
    return same and re.search(r"[\w\"')\]]$", around[1]) is not None


def _is_unchanged(token: DraftToken, old: str) -> bool:
    return (
        token.kind == "line"
        and token.text.strip() == old.strip()
        and (not old.strip() or extract_indent(token.text) == extract_indent(old))
    )


def _join_rows(out: Sequence[tuple[str, str]], lines: TextLines) -> str:
    text = "".join(line + end for line, end in out)
    open_end = bool(lines.ends) and not lines.ends[-1]
    return trim_ending(text) if open_end else text


def _close_lines(new: Sequence[str], lines: TextLines) -> str:
    end = lines.find_dominant_ending()
    return end.join(new) + end


def _align_segments(
    old: Sequence[str], tokens: Sequence[DraftToken], depths: Sequence[int], open_ends: bool
) -> list[AlignmentStep]:
    """Align; long files are cut at lines that both sides have once, and each part is aligned on its own."""
    if (len(tokens) + 1) * (len(old) + 1) <= _SEGMENT:
        return align(tokens, old, depths, open_start=open_ends, open_end=open_ends)
    cuts = [(0, 0), *_find_anchors(tokens, old), (len(tokens), len(old))]
    steps: list[AlignmentStep] = []
    for (i1, j1), (i2, j2) in pairwise(cuts):
        part = align(
            tokens[i1:i2],
            old[j1:j2],
            depths[j1:j2],
            open_start=open_ends and i1 == 0,
            open_end=open_ends and i2 == len(tokens),
        )
        steps += [AlignmentStep(None if t is None else t + i1, None if o is None else o + j1) for t, o in part]
    return steps


def _find_anchors(tokens: Sequence[DraftToken], old: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that both sides have once and at one depth, in the longest rising order."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(old):
        places.setdefault(line.strip(), []).append(index)
    texts = [token.text.strip() for token in tokens]
    pairs = [
        (index, places[text][0])
        for index, text in enumerate(texts)
        if len(places.get(text, ())) == 1 and texts.count(text) == 1 and any(letter.isalnum() for letter in text)
        if measure_depth(old[places[text][0]]) == tokens[index].depth and tokens[index].kind == "line"
    ]
    return [pair for pair in _find_longest_rising(pairs) if pair[0] > 0 and pair[1] > 0]


def _find_longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    best: list[tuple[int, int]] = []
    lengths = [1] * len(pairs)
    before = [-1] * len(pairs)
    for index, (_, place) in enumerate(pairs):
        for other in range(index):
            if pairs[other][1] < place and lengths[other] >= lengths[index]:
                lengths[index], before[index] = lengths[other] + 1, other
    at = max(range(len(pairs)), key=lengths.__getitem__, default=-1)
    while at >= 0:
        best.append(pairs[at])
        at = before[at]
    return best[::-1]


def _replace_unmarked(text: str, lines: TextLines, new: Sequence[str], path: str) -> LazyResult:
    """Apply a draft that leaves nothing out: one definition, or the whole file."""
    single = replace_definition(lines, new, path, text)
    if single is not None:
        return LazyResult(
            text=single.text, kept=len(lines) - single.removed, added=single.added, removed=single.removed
        )
    old = [line.strip() for line in lines.bodies if line.strip()]
    given = [line.strip() for line in new if line.strip()]
    shared = len(set(old) & set(given))
    same_start, same_end = _is_same_line(old[0], given[0]), _is_same_line(old[-1], given[-1])
    keys = {parse_line_key(line) for line in given}
    lost = any(
        (parse_line_key(line) or "").startswith("definition ") and parse_line_key(line) not in keys for line in old
    )
    whole = same_start and same_end and len(given) * 2 >= len(old)
    if shared * 4 >= len(set(old)) * (3 if lost else 2) or (whole and not lost):
        done = _close_lines(new, lines)
        open_end = not lines.ends[-1]
        text = trim_ending(done) if open_end else done
        return LazyResult(text=text, kept=shared, added=len(given) - shared, removed=len(old) - shared)
    raise build_undecided_error(
        "it has no ... existing code ... and is neither the whole file nor one definition of it"
    )


def _is_same_line(old: str, new: str) -> bool:
    return old == new or (parse_line_key(old) is not None and parse_line_key(old) == parse_line_key(new))


def _check_parses(path: str, before: str, done: LazyResult) -> LazyResult:
    """Return the result; raise `UndecidedEdit` when the file parsed before and does not any more."""
    if find_flaws(path, before) == ():
        broken = find_flaws(path, done.text)
        if broken:
            raise build_undecided_error(f"the result does not parse (line {broken[0].line})")
    return done


def repair_commas(text: str) -> str:
    """Put a comma after each line that ends an entry before another one, and none before a closing bracket."""
    rows = text.splitlines(keepends=True)
    filled = [index for index, row in enumerate(rows) if row.strip() and not row.lstrip().startswith("//")]
    for here, after in pairwise(filled):
        body = rows[here].rstrip("\r\n")
        end = rows[here][len(body) :]
        if re.match(r"\s*[}\]]", rows[after]):
            rows[here] = re.sub(r",\s*$", "", body) + end
        elif _VALUE_END.search(body) and _ENTRY.match(rows[after]):
            rows[here] = body.rstrip() + "," + end
    return "".join(rows)
