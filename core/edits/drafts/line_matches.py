"""Candidate pairs for the alignment: the lines of the file that a line of a draft may be, with their scores.

A line only matches one in the same position: below a line that is the same or defines the same name, up to the top. So
the end of one function never matches the end of another.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.markers import is_marker
from core.edits.indentation import measure_depth
from core.patterns import compile_lazily
from core.text.similarity import measure_similarity

TokenKind = Literal["line", "marker", "removal"]
CONTINUED: Final = compile_lazily(
    r"[)\]}]|</|end\b|fi\b|done\b|esac\b|else\b|elif\b|except\b|finally\b|catch\b|rescue\b|ensure\b|\{$"
)
OPENER: Final = compile_lazily(r".*[{(\[:>]\s*$|.*\b(?:do|then|begin)\s*$|#{1,6} ")
BRANCH: Final = compile_lazily(r"(?:\}\s*)?(?:else|elif|except|finally|catch|rescue|ensure)\b")
_HEADING: Final = compile_lazily(r"#{1,6}\s")
_BELOW: Final = 8  # columns that text is deeper than its heading
_UNKNOWN: Final = -2
_SIMILAR: Final = 0.75  # similarity of two versions of a line
_ONCE: Final = compile_lazily(
    r"(?:return|break|continue|raise|throw|module\.exports|export default)\b"
    r"|[\w.]*\b(?:listen|main|run|start|serve|exit|render|mount)\("
)
_MANY: Final = compile_lazily(r"(?:assert\w*|expect|self\.assert\w+|insert into)\b", re.IGNORECASE)
_CALLEE: Final = compile_lazily(r"(?:await\s+)?[\w.$>:-]+\(")
# A line that precedes a definition: an annotation, unless the definition is on its line (`@Test void run() {`), or a
# remark.
PREFIX: Final = compile_lazily(r"@\w(?!.*(?:[\w)>\]]\s*\{|;)$)|#\[|\[[A-Z]\w*(?:\(.*\))?\]$|/\*\*|\*|//|#|--")
SPECIAL: Final = compile_lazily(r"@[\w.]+\.(?:setter|getter|deleter|register)\b|@(?:typing\.)?overload\b")
_SAME_DEFINITION: Final = 3000  # score of the same definition
_COMMON: Final = ("end", "else:", "else {", "} else {", "pass", "return", "break")


class DraftToken(NamedTuple):
    """One line of a draft. `depth` is in columns; `removed` is the subject of a removal.

    Of a marker: `floor` is the least depth of the lines that it covers, `is_scope_opened` says that the line before it
    opens their scope, and `is_first` or `is_last` that it is the first or last line of the draft, so that it covers
    everything before or after. Of a line: `is_exposed` says that it is next to a marker that may cover a similar line,
    and `is_sole` that in its language a scope defines a name once.
    """

    kind: TokenKind
    text: str
    depth: int
    removed: str = ""
    floor: int = 0
    is_scope_opened: bool = False
    is_first: bool = False
    is_last: bool = False
    is_exposed: bool = False
    is_sole: bool = False


class ResultRow(NamedTuple):
    """One filled line of the result. `token` None: a marker covers it; `old` None: it is no line of the file."""

    token: int | None
    old: int | None


def measure_depths(lines: Sequence[str], *, prose: bool) -> list[int]:
    """Return the depth of every line. In prose, text below a heading is deeper, and so is a marker right below it."""
    if not prose:
        return [measure_depth(line) if line.strip() else 0 for line in lines]
    depths, has_heading, fresh = [], False, False
    for index, line in enumerate(lines):
        heading = _HEADING.match(line) is not None
        after = (
            next((next_line for next_line in lines[index + 1 :] if next_line.strip()), "")
            if fresh and is_marker(line)
            else ""
        )
        inside = bool(after) and not _HEADING.match(after)
        depths.append(0 if heading or (is_marker(line) and not inside) else _BELOW * has_heading)
        has_heading = has_heading or heading
        fresh = heading or (fresh and not line.strip())
    return depths


def is_continuation(texts: Sequence[str], index: int) -> bool:
    """True if a line closes or continues a block; a brace alone does, unless it is an entry of a list."""
    text = texts[index].strip()
    if text != "{":
        return CONTINUED.match(text) is not None
    before = texts[index - 1].rstrip() if index else ""
    return before != "" and not before.endswith((",", "[", "(", "{", "}", ";"))


def find_owners(texts: Sequence[str], depths: Sequence[int]) -> list[int]:
    """Return the index of the line that owns every line, -1 at the top; the owner of a closing or continuing line is
    the line that opened its block. Markers are empty texts. A line that closes a block inside a marker has no known
    owner (-2)."""
    owners: list[int] = []
    marker_owners: set[int] = set()
    stack: list[tuple[int, int]] = []  # (line that opened a block, its current branch)
    for index, text in enumerate(texts):
        while text and stack and depths[stack[-1][0]] > depths[index]:
            stack.pop()
        same = bool(text) and bool(stack) and depths[stack[-1][0]] == depths[index]
        if same and is_continuation(texts, index):
            head, branch = stack.pop()
            if head in marker_owners and not OPENER.match(texts[head]):
                owners.append(_UNKNOWN)
                stack.append((head, _UNKNOWN))
                continue
            owners.append(head)
            stack.append((head, index if BRANCH.match(text) else branch))
            continue
        if same:
            stack.pop()
        owners.append(stack[-1][1] if stack else -1)
        if text:
            stack.append((index, index))
        elif stack:
            marker_owners.add(stack[-1][0])
    return owners


class _Ancestry:
    """Comparison of the owners of a line of the draft and of a line of the file."""

    def __init__(
        self, draft_lines: Sequence[str], file_lines: Sequence[str], depths: tuple[Sequence[int], Sequence[int]]
    ) -> None:
        self.ours, self.theirs = draft_lines, file_lines
        self.our_owners, self.their_owners = find_owners(draft_lines, depths[0]), find_owners(file_lines, depths[1])
        self.our_heads, self.their_heads = _find_headed(draft_lines), _find_headed(file_lines)
        self.known: dict[tuple[int, int], bool] = {}

    def is_same_place(self, token: int, line: int) -> bool:
        """True if a line of the draft and one of the file have the same owners."""
        owner, other = self.our_owners[token], self.their_owners[line]
        if owner >= 0 and not (other >= 0 and self._is_same_owner(owner, other)):
            return False
        if _find_overload_decorator(self.ours, token) != _find_overload_decorator(self.theirs, line):
            return False
        return self._has_same_head(token, line)

    def _has_same_head(self, token: int, line: int) -> bool:
        """True if two lines before a definition precede the same one; a line with a string is compared by its text."""
        if self.ours[token] == "{" and not is_continuation(self.theirs, line):
            return self._begins_same_entry(token + 1, line + 1)
        head, other = self.our_heads[token], self.their_heads[line]
        if head is None or other is None:
            return True
        if self.ours[token] == self.theirs[line] and re.search(r"[\"'/]", self.ours[token].strip("/*")):
            return True
        return self._is_same_owner(head, other)

    def _begins_same_entry(self, token: int, line: int) -> bool:
        """True if two entries of a list begin alike, as far as the draft shows the beginning of its entry."""
        entry = self.ours[token] if token < len(self.ours) else ""
        return not entry or (line < len(self.theirs) and entry.rstrip(",") == self.theirs[line].rstrip(","))

    def _is_same_owner(self, owner: int, other: int) -> bool:
        if (owner, other) not in self.known:
            self.known[owner, other] = False
            same = _is_same_thing(self.ours[owner], self.theirs[other])
            self.known[owner, other] = same and self.is_same_place(owner, other)
        return self.known[owner, other]


def _find_overload_decorator(texts: Sequence[str], index: int) -> str:
    """Return the decorator that makes a definition one of several of its name; "" = there is none."""
    return texts[index - 1] if index and SPECIAL.match(texts[index - 1]) else ""


def _find_headed(texts: Sequence[str]) -> list[int | None]:
    """Return the line of the definition that every decorator, attribute or comment precedes; None = it precedes
    none."""
    heads: list[int | None] = [None] * len(texts)
    for index in range(len(texts) - 2, -1, -1):
        after = index + 1
        if PREFIX.match(texts[index]) and texts[after]:
            head = after if parse_line_key(texts[after]) else None
            heads[index] = heads[after] if PREFIX.match(texts[after]) else head
    return heads


def _is_same_thing(draft_line: str, file_line: str) -> bool:
    if draft_line == file_line:
        return True
    key, other = parse_line_key(draft_line), parse_line_key(file_line)
    return key == other if key else other is None and measure_similarity(draft_line, file_line) >= _SIMILAR


def find_matches(tokens: Sequence[DraftToken], old: Sequence[str], depths: Sequence[int]) -> list[dict[int, int]]:
    """Return, for every token, the old lines that it may be, with their scores."""
    bare = [line.strip() for line in old]
    draft_texts = ["" if token.kind == "marker" else token.text.strip() for token in tokens]
    same = _Ancestry(draft_texts, bare, ([token.depth for token in tokens], depths))
    positions: dict[str, list[int]] = defaultdict(list)
    keys: dict[tuple[str, int], list[int]] = defaultdict(list)
    heads: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, line in enumerate(bare):
        positions[line].append(index)
        if key := parse_line_key(line):
            keys[key, depths[index]].append(index)
        else:
            heads[_take_first_word(line), depths[index]].append(index)
    counts = Counter(token.text.strip() for token in tokens)
    matches: list[dict[int, int]] = []
    for number, token in enumerate(tokens):
        text = token.text.strip()
        if token.kind == "marker":
            matches.append({})
        elif token.kind == "removal":
            pattern = compile_subject(token.removed)
            removed_indexes = [position for position, line in enumerate(bare) if pattern.search(line)]
            matches.append(dict.fromkeys(removed_indexes, 200 if len(removed_indexes) == 1 else 120))
        else:
            exact = _score_exact(text, token.depth, positions.get(text, ()), depths, counts[text])
            worth = {**_score_versions(token, keys, heads, bare), **exact}
            if token.is_exposed:
                is_keyed = bool(parse_line_key(text) or _ONCE.match(text))
                worth = {position: gain for position, gain in worth.items() if is_keyed or text == bare[position]}
            matches.append({position: gain for position, gain in worth.items() if same.is_same_place(number, position)})
    return matches


def _score_exact(text: str, depth: int, positions: Sequence[int], depths: Sequence[int], count: int) -> dict[int, int]:
    if not re.search(r"\w", text) or text in _COMMON:
        return {position: 40 for position in positions if depths[position] == depth}
    if (parse_line_key(text) or "").startswith(("definition ", "block ")):
        return {position: _SAME_DEFINITION for position in positions if depths[position] == depth}
    worth = 160 if len(positions) == 1 and count == 1 else 100
    return {position: worth if depths[position] == depth else worth // 2 for position in positions}


def _score_versions(
    token: DraftToken,
    keys: dict[tuple[str, int], list[int]],
    heads: dict[tuple[str, int], list[int]],
    bare: Sequence[str],
) -> dict[int, int]:
    text, depth = token.text.strip(), token.depth
    if key := parse_line_key(text):
        positions = keys.get((key, depth), [])
        sole = token.is_sole and key.startswith("definition ")
        return dict.fromkeys(positions, _SAME_DEFINITION // 2 if sole else 90 if len(positions) == 1 else 70)
    scores = {}
    for position in heads.get((_take_first_word(text), depth), [])[:200]:
        similarity = measure_similarity(text, bare[position])
        once = _ONCE.match(text)
        if similarity >= _SIMILAR or (once is not None and bare[position].startswith(once[0])):
            scores[position] = 20 + int(40 * similarity)
    return scores


def is_possible_version(text: str, old: str) -> bool:
    """True if a line may be a new version of another one by its look only, and is not simply one more of its kind."""
    key = parse_line_key(text) or parse_line_key(old) or _ONCE.match(text) or _MANY.match(text)
    if key or text == old or _take_first_word(text) != _take_first_word(old):
        return False
    callee = _CALLEE.match(text)
    return measure_similarity(text, old) >= _SIMILAR or (callee is not None and old.startswith(callee[0]))


def compile_subject(subject: str) -> re.Pattern[str]:
    """Compile the pattern that finds the subject of a removal in code."""
    return re.compile(rf"(?<![\w.]){re.escape(subject)}(?!\w)")


def _take_first_word(line: str) -> str:
    match = re.match(r"\w+|\W", line)
    return match[0] if match else ""
