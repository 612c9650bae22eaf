"""The lazy format: new code in which `… existing code …` stands for code that stays as it is.

A draft that is shaped like a diff is placed by its pieces, any other is aligned with the file; code that stays keeps
its bytes. A draft without a marker is the whole file, or one or several definitions that the file has once, next to
each other. A definition is found by syntax tree where a grammar names it, else by the key of its first line and the
lines below it. The result has to parse if the file did. An undecidable draft is refused with `UndecidedEdit`, for the
model that applies edits or for a second try.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from core.edits.drafts.alignment import assign_scopes, mark_exposed
from core.edits.drafts.assembly import MAX_UNMENTIONED, check_marker_words, check_remarks, splice_draft
from core.edits.drafts.checks import check_parses
from core.edits.drafts.draft_indentation import detect_indent_unit, fit_indentation, reindent_at
from core.edits.drafts.line_costs import is_informative
from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.line_matches import CONTINUED, DraftToken, measure_depths
from core.edits.drafts.marker_rules import check_target
from core.edits.drafts.markers import expand_elided_body, is_marker, may_be_marker
from core.edits.drafts.placed_draft import PlacedDraft, place_draft
from core.edits.errors import EditError, UndecidedEdit
from core.edits.indentation import measure_depth
from core.patterns import compile_lazily
from core.syntax.symbols import Definition, find_definitions
from core.text.lines import TextLines, split_closed, split_lines

_MANY_PLACES: Final = "its parts fit in more than one place"
_PROSE: Final = (".md", ".mdx", ".markdown", ".rst")
_ONE_OF_A_NAME: Final = (".py", ".js", ".jsx", ".mjs", ".cjs", ".go", ".rs", ".rb", ".php", ".c", ".sh")
_NAMED: Final = compile_lazily(
    r"(?://|#|--|/\*|<!--)\s*(?:(?:file)?path|file(?:name)?)?\s*:?\s*(?P<path>[\w./\\-]+\.\w+)\s*(?:\*/|-->)?"
)
_VALUE_END = compile_lazily(r'(?:["\d}\]]|true|false|null)\s*$')
_ENTRY = compile_lazily(r'\s*(?:["{\[\d-]|true|false|null)')


def apply_lazy(text: str, code_edit: str, path: str = "") -> str:
    """Return the file after a draft, with or without markers. Raises `EditError`."""
    lines = split_lines(text)
    file_lines = {line.strip() for line in lines.bodies}
    placed = place_draft(
        lines, _normalise_draft(split_draft(code_edit, is_trimmed=False), file_lines, path), open_ends=True
    )
    if placed is not None and placed.is_accepted and placed.has_markers:
        check_marker_words(split_draft(code_edit), lines, placed.text)
        return check_parses(path, text, placed.text)
    if placed is not None and placed.has_markers and not placed.is_outline:
        raise UndecidedEdit(_MANY_PLACES)
    check_remarks(split_draft(code_edit), file_lines)
    new = _normalise_draft(split_draft(code_edit), file_lines, path)
    if not any(line.strip() for line in new):
        raise EditError("The edit is empty.", hint="Give the new code, or delete the file. Nothing was changed.")
    marker_flags = [(is_marker(line) or may_be_marker(line)) and line.strip() not in file_lines for line in new]
    if not any(line.strip() for line in lines.bodies) and not any(marker_flags):
        return _close_lines(new, lines)
    if not any(marker_flags) and any(is_marker(line) for line in new) and not (placed is not None and placed.is_sure):
        raise UndecidedEdit("its marker may be a line of the file")
    if not any(marker_flags):
        return _apply_unmarked(path, text, new, placed)
    check_target(new, marker_flags, lines.bodies)
    tokens = _tokenise(new, marker_flags, lines, path)
    new_text = splice_draft(lines, tokens, open_ends=True, prose=path.endswith(_PROSE))
    if placed is not None and not placed.allows(text, new_text):
        raise UndecidedEdit(_MANY_PLACES)
    return check_parses(path, text, repair_commas(new_text) if path.endswith((".json", ".jsonc")) else new_text)


def _apply_unmarked(path: str, text: str, new: Sequence[str], placed: PlacedDraft | None) -> str:
    """Apply a draft without a marker: the whole file, one definition, or a piece with a unique position."""
    try:
        new_text = check_parses(path, text, _replace_unmarked(text, split_lines(text), new, path))
    except UndecidedEdit:
        if placed is None or not placed.is_accepted:
            raise
        return check_parses(path, text, placed.text)
    if placed is not None and placed.is_accepted and placed.text != new_text:
        raise UndecidedEdit("it may be the whole file, a definition or a part of it")
    return new_text


def _normalise_draft(new: Sequence[str], file_lines: Collection[str], path: str) -> list[str]:
    """Drop a first comment that only names the file, and put every elided body on a separate line."""
    # The first line of a longer comment belongs to that comment.
    longer = len(new) > 1 and new[1][:1] == new[0][:1] and not new[1][:1].isalnum() and not is_marker(new[1])
    match = _NAMED.fullmatch(new[0]) if new and new[0].strip() not in file_lines and not longer else None
    if match and path and PurePath(match["path"]).name == PurePath(path).name:
        new = new[1:]
    rows = [(line, expand_elided_body(line, detect_indent_unit(new))) for line in new]
    return [row for line, spread in rows for row in (spread if spread[0].strip() in file_lines else [line])]


def split_draft(draft: str, *, is_trimmed: bool = True) -> list[str]:
    """Split a draft into lines, without a fence around them; `is_trimmed`: also without blank lines at both ends."""
    lines = split_closed(draft)[0]
    nonblank_indexes = [index for index, line in enumerate(lines) if line.strip()]
    inner = lines[nonblank_indexes[0] : nonblank_indexes[-1] + 1] if nonblank_indexes else []
    if len(inner) > 1 and inner[0].lstrip().startswith("```") and inner[-1].strip() == "```":
        return split_draft("\n".join(inner[1:-1]), is_trimmed=is_trimmed)
    return inner if is_trimmed else lines


def _tokenise(new: Sequence[str], marker_flags: Sequence[bool], lines: TextLines, path: str) -> list[DraftToken]:
    prose, sole = path.endswith(_PROSE), path.endswith(_ONE_OF_A_NAME)
    rows = fit_indentation(new, lines)
    depths = measure_depths(rows, prose=prose)
    tokens = [
        DraftToken("marker" if mark else "line", line, depth, is_sole=sole)
        for line, mark, depth in zip(rows, marker_flags, depths, strict=True)
    ]
    return mark_exposed(assign_scopes(tokens))


def _close_lines(new: Sequence[str], lines: TextLines) -> str:
    end = lines.find_dominant_ending()
    return end.join(new) + end


def _replace_unmarked(text: str, lines: TextLines, new: Sequence[str], path: str) -> str:
    """Replace one definition, or the whole file, by a draft without a marker."""
    single = replace_definition(lines, new, path, text)
    if single is not None:
        return single
    old = [line.strip() for line in lines.bodies if line.strip()]
    draft_lines = [line.strip() for line in new if line.strip()]
    shared_count = len(set(old) & set(draft_lines))
    same_start, same_end = _is_same_line(old[0], draft_lines[0]), _is_same_line(old[-1], draft_lines[-1])
    removed_keys = {parse_line_key(line) or "" for line in old} - {parse_line_key(line) for line in draft_lines}
    has_lost_definition = any(key.startswith("definition ") for key in removed_keys)
    is_whole_file = same_start and same_end and len(draft_lines) * 2 >= len(old)
    for verb, outer, side, rows in (
        ("begins", draft_lines[0], "before", old),
        ("ends", draft_lines[-1], "after", old[::-1]),
    ):
        rest = rows[: rows.index(outer)] if outer in rows else []
        if any(map(is_informative, rest)) and set(rest).isdisjoint(draft_lines):
            raise UndecidedEdit(f"it {verb} with {outer[:80]!r} and does not say what happens to the lines {side}")
    if shared_count * 4 >= len(set(old)) * (3 if has_lost_definition else 2) or (
        is_whole_file and not has_lost_definition
    ):
        return lines.fit_end(_close_lines(new, lines))
    raise UndecidedEdit("it has no ... existing code ... and is neither the whole file nor one definition of it")


def _is_same_line(old: str, new: str) -> bool:
    return old == new or (parse_line_key(old) is not None and parse_line_key(old) == parse_line_key(new))


def repair_commas(text: str) -> str:
    """Put a comma after every line that ends an entry before another one, and none before a closing bracket."""
    rows = text.splitlines(keepends=True)
    nonblank_indexes = [index for index, row in enumerate(rows) if row.strip() and not row.lstrip().startswith("//")]
    for position, after in pairwise(nonblank_indexes):
        body = rows[position].rstrip("\r\n")
        end = rows[position][len(body) :]
        if re.match(r"\s*[}\]]", rows[after]):
            rows[position] = re.sub(r",\s*$", "", body) + end
        elif _VALUE_END.search(body) and _ENTRY.match(rows[after]):
            rows[position] = body.rstrip() + "," + end
    return "".join(rows)


def replace_definition(lines: TextLines, new: Sequence[str], path: str, text: str) -> str | None:
    """Replace the definition that the draft is a version of; None = there is not exactly one."""
    span = _find_by_tree(lines, new, path, text) or _find_by_key(lines, new)
    if span is None:
        return None
    first, last = span
    old = lines.bodies[first : last + 1]
    draft_lines, file_lines = ([line.strip() for line in rows if line.strip()] for rows in (new, old))
    if len(old) == len(lines) or len(file_lines) > 3 * len(draft_lines) + MAX_UNMENTIONED:
        return None
    if draft_lines[-1] != file_lines[-1] and draft_lines[-1] in file_lines:
        return None  # the draft ends before the definition does, and may have left out the rest
    rows = reindent_at(new, lines.bodies[first])
    replacement = lines.find_dominant_ending().join(rows) + lines.ends[last]
    return text[: lines.starts[first]] + replacement + text[lines.find_end(last) :]


def _find_by_tree(lines: TextLines, new: Sequence[str], path: str, text: str) -> tuple[int, int] | None:
    file_definitions = find_definitions(path, text)
    draft_definitions = find_definitions(path, "\n".join(new)) or _find_wrapped_definitions(path, new)
    if not file_definitions or not draft_definitions:
        return None
    outer = [
        definition for definition in draft_definitions if not any(line.strip() for line in new[: definition.first])
    ]
    if not outer or any(line.strip() for line in new[outer[0].last + 1 :]):
        return None
    namesakes = [definition for definition in file_definitions if definition.name == outer[0].name]
    if len(namesakes) > 1:
        namesakes = [
            definition for definition in namesakes if lines.bodies[definition.own].strip() == new[outer[0].own].strip()
        ]
    if len(namesakes) != 1 or _has_shrunk(file_definitions, draft_definitions, namesakes[0]):
        return None
    return namesakes[0].own if outer[0].own == outer[0].first else namesakes[0].first, namesakes[0].last


def _has_shrunk(
    file_definitions: Sequence[Definition], draft_definitions: Sequence[Definition], target: Definition
) -> bool:
    """True if the draft lacks most of the definitions inside of the target."""
    inside = [
        definition.name
        for definition in file_definitions
        if target.own < definition.own and definition.last <= target.last
    ]
    draft_names = {definition.name for definition in draft_definitions}
    return sum(name not in draft_names for name in inside) * 2 > len(inside)


def _find_wrapped_definitions(path: str, new: Sequence[str]) -> tuple[Definition, ...]:
    """Return the definitions of lines that are only valid inside of a class."""
    definitions = find_definitions(path, "class _ {\n" + "\n".join(new) + "\n}")
    inner = [definition for definition in definitions or () if definition.name != "_"]
    return tuple(
        Definition(definition.name, definition.first - 1, definition.own - 1, definition.last - 1)
        for definition in inner
    )


def _find_by_key(lines: TextLines, new: Sequence[str]) -> tuple[int, int] | None:
    """Find the span of a draft whose blocks (lines with the deeper lines below them) the file has once, in sequence."""
    spans: list[tuple[int, int]] = []
    for first, last in _split_blocks(new):
        span = _find_block(lines, new[first : last + 1])
        if span is None or (spans and any(line.strip() for line in lines.bodies[spans[-1][1] + 1 : span[0]])):
            return None
        if spans and span[0] <= spans[-1][1]:
            return None
        spans.append(span)
    return (spans[0][0], spans[-1][1]) if spans else None


def _split_blocks(new: Sequence[str]) -> list[tuple[int, int]]:
    blocks: list[tuple[int, int]] = []
    index = 0
    while index < len(new):
        if new[index].strip():
            blocks.append((index, _find_block_end(new, index)))
            index = blocks[-1][1]
        index += 1
    return blocks


def _find_block(lines: TextLines, block: Sequence[str]) -> tuple[int, int] | None:
    key = parse_line_key(block[0])
    if key is None or len(block) < 2:
        return None
    positions = [index for index, line in enumerate(lines.bodies) if parse_line_key(line) == key]
    if len(positions) > 1:
        positions = [index for index in positions if lines.bodies[index].strip() == block[0].strip()]
    if len(positions) != 1:
        return None
    last = _find_block_end(lines.bodies, positions[0])
    closing_flags = [bool(CONTINUED.match(row.strip())) for row in (block[-1], lines.bodies[last])]
    return None if last == positions[0] or closing_flags[0] != closing_flags[1] else (positions[0], last)


def _find_block_end(rows: Sequence[str], first: int) -> int:
    """Return the last line of the block that begins at a line: deeper lines, and closing or continuing lines of its
    depth."""
    depth, last, is_closed = measure_depth(rows[first]), first, False
    for index in range(first + 1, len(rows)):
        row = rows[index].strip()
        if not row:
            continue
        inner = measure_depth(rows[index]) > depth
        if not inner and (is_closed or measure_depth(rows[index]) < depth or not CONTINUED.match(row)):
            break
        is_closed = not inner and not row.endswith(("{", "(", "[", ":"))
        last = index
    return last
