"""Reasons to refuse an alignment of a draft: better refused than guessed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from core.edits.errors import UndecidedEdit
from core.edits.hunks.costs import is_telling
from core.edits.hunks.pieces import is_single
from core.edits.hunks.placed_draft import MOST_OPEN
from core.edits.indentation import measure_depth
from core.edits.lazy.alignment import is_scope_kept
from core.edits.lazy.blank_lines import ResultRow
from core.edits.lazy.line_keys import parse_line_key
from core.edits.lazy.line_matches import CONTINUED, SPECIAL, DraftToken, find_owners, is_doubtful_version
from core.syntax.flaws import find_flaws
from core.text.lines import TextLines

_COPIED: Final = 3
_LONG: Final = 16
_WORDS = re.compile(r"[A-Za-z_]\w.*")


@dataclass(frozen=True)
class AlignedDraft:
    """A file, a draft, and the filled lines that they make."""

    lines: TextLines
    tokens: Sequence[DraftToken]
    rows: Sequence[ResultRow]

    @cached_property
    def counts(self) -> Counter[str]:
        """The number of times that the file has each line."""
        return Counter(line.strip() for line in self.lines.bodies)


def find_doubt(laid: AlignedDraft) -> str:
    """Return why the result may be wrong; "" when nothing speaks against it."""
    if _is_marker_emptied(laid):
        return "code would go where it says that code stays"
    return next(filter(None, (find(laid) for find in _OBJECTIONS)), "")


def _is_marker_emptied(laid: AlignedDraft) -> bool:
    """True if a marker would not keep what stands beside the lines around it that are there: right below the line
    before it, right above the line after it; what stands before or after a draft is kept like that, too."""
    filled = [place for place, body in enumerate(laid.lines.bodies) if body.strip()]
    kept = {row.old for row in laid.rows if row.old is not None}
    where = {row.token: row.old for row in laid.rows if row.token is not None}
    tokens = [index for index, token in enumerate(laid.tokens) if token.text.strip()]
    for above, below in pairwise([None, *tokens, None]):
        marked = [each is None or laid.tokens[each].kind == "marker" for each in (above, below)]
        line = below if marked[0] else above
        place = _find_exact_line(laid, line, where.get(line)) if line is not None and any(marked) else None
        if place is None or all(marked):
            continue
        at = filled.index(place) + (1 if line == above else -1)
        if 0 <= at < len(filled) and filled[at] not in kept:
            return True
    return any(row.old is None and is_scope_kept(laid.tokens, row.token or 0) for row in laid.rows)


def _find_exact_line(laid: AlignedDraft, token: int, old: int | None) -> int | None:
    """The line of the file that a line of the draft is, when it is the very same; None else."""
    if old is None or laid.tokens[token].kind != "line":
        return None
    return old if laid.tokens[token].text.strip() == laid.lines.bodies[old].strip() else None


def _find_doubtful_version(laid: AlignedDraft) -> str:
    """Object to a new line beside one that a marker keeps and that it may be meant to replace."""
    for above, below in pairwise(laid.rows):
        fresh, stays = (above, below) if below.token is None else (below, above)
        if fresh.token is None or fresh.old is not None or stays.token is not None or stays.old is None:
            continue
        old, token = laid.lines.bodies[stays.old], laid.tokens[fresh.token]
        beside = token.is_exposed and measure_depth(old) == token.depth
        if beside and is_doubtful_version(token.text.strip(), old.strip()):
            return f"{token.text.strip()[:80]!r} may be new, or take the place of line {stays.old + 1}"
    return ""


def _find_ambiguous_container(laid: AlignedDraft) -> str:
    """Object to a draft that begins inside of something and has only what several such things have, too."""
    texts = ["" if token.kind != "line" else token.text.strip() for token in laid.tokens]
    above = find_owners(texts, [token.depth for token in laid.tokens])
    there = laid.counts
    pairs = ((row.token, row.old) for row in laid.rows)
    matched = [(token, laid.lines.bodies[old].strip()) for token, old in pairs if token is not None and old is not None]
    tops = [(token, old) for token, old in matched if above[token] < 0 and not CONTINUED.match(texts[token])]
    is_placed = any(there[old] == 1 and (texts[token] == old or (token, old) in tops) for token, old in matched)
    if not is_placed and any(laid.tokens[token].depth for token, _ in tops):
        return f"there is more than one {tops[0][1][:80]!r}, and it does not say in what"
    return ""


def _find_double_definition(laid: AlignedDraft) -> str:
    """Object to a definition beside one of its name that stays, or a line beside the one like it in the same place."""
    whole = [laid.lines.bodies[row.old or 0] if row.token is None else laid.tokens[row.token].text for row in laid.rows]
    texts = [line.strip() for line in whole]
    above = find_owners(texts, [measure_depth(line) for line in whole])
    sole = any(token.is_sole for token in laid.tokens)
    seen: dict[tuple[int, str], bool] = {}
    for index, (text, row) in enumerate(zip(texts, laid.rows, strict=True)):
        key = parse_line_key(text) or ""
        defines = key.startswith(("definition ", "block "))
        once = laid.counts[text] == 1 and _WORDS.match(text) is not None
        if not (defines or once) or (index and SPECIAL.match(texts[index - 1])):
            continue
        name = (above[index], key if sole and defines else re.sub(r"\s", "", text))
        fresh = row.old is None
        if name in seen and (fresh or seen[name]) and (defines or row.token is None or not seen[name]):
            return f"{text[:80]!r} would be there twice"
        seen[name] = fresh or seen.get(name, False)
    return ""


def _find_copied_context(laid: AlignedDraft) -> str:
    """Object to lines that the file has once and that would be there twice: they only say where the draft belongs."""
    there = laid.counts
    kept = {laid.lines.bodies[row.old].strip() for row in laid.rows if row.old is not None}
    fresh = [laid.tokens[row.token].text.strip() for row in laid.rows if row.token is not None and row.old is None]
    twice = [line for line in fresh if there[line] == 1 and line in kept and is_telling(line)]
    if len(twice) >= _COPIED:
        return f"{twice[0][:80]!r} and more lines would be there twice"
    held = [line for line in kept if len(line) >= _LONG and there[line] == 1]
    again = next((line for line in fresh if line not in there and any(each in line for each in held)), "")
    return f"{again[:80]!r} may be new, or take the place of a line that it holds" if again else ""


def _find_repeated_line(laid: AlignedDraft) -> str:
    """Object to a new line beside the very same one, which a marker keeps; or a marker that keeps nothing."""
    for above, below in pairwise(laid.rows):
        for fresh, stays in ((above, below), (below, above)):
            if fresh.token is not None and fresh.old is None and stays.token is None and stays.old is not None:
                text = laid.tokens[fresh.token].text.strip()
                if text == laid.lines.bodies[stays.old].strip():
                    return f"{text[:80]!r} would be there twice"
        if above.token is not None and below.token is not None:
            between = laid.tokens[above.token + 1 : below.token]
            if any(token.kind == "marker" for token in between):
                return "one of its markers stands for nothing"
    return ""


def _find_replaced_overload(laid: AlignedDraft) -> str:
    """Object when one of several overloads would become another signature, and a marker keeps those before it."""
    keys = Counter((parse_line_key(line), measure_depth(line)) for line in laid.lines.bodies)
    for above, row in pairwise(laid.rows):
        if row.token is None or row.old is None or above.token is not None or laid.tokens[row.token].is_sole:
            continue
        old, new = laid.lines.bodies[row.old].strip(), laid.tokens[row.token].text.strip()
        key = parse_line_key(old) or ""
        if old != new and key.startswith("definition ") and keys[key, measure_depth(laid.lines.bodies[row.old])] > 1:
            return f"{new[:80]!r} may be new, or take the place of line {row.old + 1}"
    return ""


def _find_deleted_definition(laid: AlignedDraft) -> str:
    """Object to deleting a definition at the start or the end of its scope, where a marker may have been forgotten."""
    kept = [row.old for row in laid.rows if row.old is not None]
    given = {parse_line_key(token.text) for token in laid.tokens}
    bodies = laid.lines.bodies
    for above, below in pairwise([-1, *kept, len(bodies)]):
        for place in range(above + 1, below):
            key, depth = parse_line_key(bodies[place]) or "", measure_depth(bodies[place])
            if not key.startswith("definition ") or key in given:
                continue
            outer = [measure_depth(bodies[each]) < depth for each in (above, below) if 0 <= each < len(bodies)]
            if len(outer) < 2 or any(outer):
                return f"{bodies[place].strip()[:80]!r} would go, and the edit does not mention it"
    return ""


def _find_unmarked_end(laid: AlignedDraft) -> str:
    """Object to lines before or after the draft, where it has no marker: they may be kept, or be what goes. One
    thing shown alone needs no markers around it, when one right below its head tells that the head only says where."""
    filled = [token for token in laid.tokens if token.text.strip()]
    shown = [index for index, row in enumerate(laid.rows) if row.token is not None]
    if not filled or not shown:
        return ""
    kinds = [token.kind for token in filled]
    headed = kinds[0] != "marker" and "marker" in kinds[1:3]
    if headed and is_single([token.text for token in filled if token.kind == "line"]):
        return ""
    ends = [laid.rows[: shown[0]]] if kinds[0] != "marker" else []
    ends += [laid.rows[shown[-1] + 1 :]] if kinds[-1] != "marker" else []
    for rows in ends:
        kept = [row.old for row in rows if row.old is not None and is_telling(laid.lines.bodies[row.old])]
        if 0 < len(kept) <= MOST_OPEN:
            return f"line {kept[0] + 1} may stay or go, as no marker says so"
    return ""


_OBJECTIONS: Final = (
    _find_doubtful_version,
    _find_ambiguous_container,
    _find_double_definition,
    _find_copied_context,
    _find_repeated_line,
    _find_replaced_overload,
    _find_deleted_definition,
    _find_unmarked_end,
)


def check_parses(path: str, before: str, after: str) -> str:
    """Return the result; raise `UndecidedEdit` when the file parsed before and does not any more."""
    if find_flaws(path, before) == () and (broken := find_flaws(path, after)):
        raise UndecidedEdit(f"the result does not parse (line {broken[0].line})")
    return after
