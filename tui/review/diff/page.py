"""The pages of a review: one per file, in the order of their intents.

A settled file keeps its page and its position.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core.protocol.events import DiagnosticsReported
from core.protocol.language import Diagnostic
from core.protocol.review import Change, ChangeDiff, Comment, DiffLine, Hunk, Verdict
from core.state.proof import Judgement
from tui.review.diff.layout import (
    CHANGED,
    LINE_END_MARKS,
    CleanLine,
    DiffLayout,
    DiffRow,
    DiffSyntax,
    FoldedHunk,
    Remarks,
    build_folded_row,
    clean_lines,
    count_changed,
    find_visible_targets,
    layout_diff,
)
from tui.review.diff.verdicts import SentVerdicts
from tui.text import expose_text, render_prose
from tui.widgets.diagnostics import DiagnosticReports, group_by_line
from tui.widgets.text_rows import find_line_breaks, measure_text

CONTEXT_LINES: Final = 3  # unchanged lines around a hunk
_EMPTY: Final = DiffLayout((), (), ())
_PLAIN: Final = DiffSyntax((), "", "")


class DiffPage:
    """A file of the review: pending (`change`), or settled (None). `group`: the `intent`, on the first file of a
    group; `has_header`: False where something else names the file; `context`: requested number of unchanged lines;
    `goal`: the id of the hunk that gets the cursor once it is loaded."""

    def __init__(self, path: str, change: Change | None, *, has_header: bool = True) -> None:
        self.path, self.change, self._has_header = path, change, has_header
        self.intent = self.group = self.place = ""
        self.diff: ChangeDiff | None = None
        self.problem = self.goal = ""
        self._loaded_for: Change | None = None
        self.context = self._loaded_context = CONTEXT_LINES
        self._widths: Sequence[int] = ()  # of the lines, in cells
        self.width = 0  # of the longest line that is not wrapped
        self.widest_changed = 0
        self.has_long_lines = False  # True if a changed line is wider than the view
        self.sent: Mapping[str, Verdict] = {}
        self.comments: Mapping[str, str] = {}
        self.diagnostics: DiagnosticsReported | None = None
        self.folded: Sequence[FoldedHunk] = ()
        self.judgements: Mapping[str, Judgement] = {}
        self.lines: Sequence[CleanLine] = ()
        self.counts: Mapping[tuple[str, int], int] = {}
        self.syntax = _PLAIN
        self.digits = 2
        self.by_line: Mapping[int, Sequence[Diagnostic]] = {}
        self.lead: Sequence[DiffRow] = ()
        self._layout = _EMPTY
        self._laid_out: tuple[object, ...] = ()
        self.height = 0

    @property
    def hunks(self) -> Sequence[Hunk]:
        """The hunks of the loaded lines, else of the change."""
        change = self.diff.change if self.diff is not None else self.change
        return change.hunks if change is not None else ()

    @property
    def judged(self) -> frozenset[str]:
        """The ids of the hunks with a row for what is known of them; the head of a hunk has room for its kind."""
        return frozenset(hunk for hunk, judgement in self.judgements.items() if not judgement.is_brief)

    @property
    def is_unloaded(self) -> bool:
        """True if the lines have to be loaded or reloaded."""
        if self.change is None or self.problem:
            return False
        if self.diff is None or self.context != self._loaded_context:
            return True
        return self.change not in (self._loaded_for, self.diff.change)

    def has_header_above(self, row: int) -> bool:
        """True if row `row` of the page lies below its header."""
        return self._has_header and self.change is not None and row > bool(self.group)

    def set_change(self, change: Change | None) -> None:
        if change != self.change:
            self.change, self.problem = change, ""
            if change is None:
                self.diff, self.lines = None, ()

    def set_diff(self, diff: ChangeDiff) -> None:
        self.diff, self.problem, self._loaded_for = diff, "", self.change
        self._loaded_context = self.context
        self.lines = clean_lines(diff)
        self.counts = count_changed(diff, self.lines)
        top = max((max(line.old, line.new) for line in self.lines), default=0)
        self.digits = max(len(str(top)), 2)
        self.syntax = DiffSyntax(self.lines, diff.change.language, diff.change.path)
        widths = (measure_text(line.text) + len(LINE_END_MARKS.get(line.eol, "")) for line in self.lines)
        self._widths = [*widths]
        changed = (width for line, width in zip(self.lines, self._widths, strict=True) if line.kind in CHANGED)
        self.widest_changed = max(changed, default=0)

    def lay_out(self, room: int, *, is_split: bool, code_room: int) -> None:
        """Lay out its rows, if anything about them has changed; words wrap at `room` cells, changed lines at
        `code_room` (0 = they don't)."""
        content = (self.group, self.problem, self.change, self.diff, self.diagnostics)
        key = (room, is_split, code_room, *content, tuple(self.folded), tuple(self.comments.items()), self.judged)
        if key == self._laid_out:
            return
        self._laid_out = key
        diagnostics = self.diagnostics.diagnostics if self.diagnostics is not None else ()
        self.by_line = group_by_line(diagnostics)
        lead = [DiffRow("group", text=self.group)] if self.group else []
        if self.change is not None and self._has_header:
            lead.append(DiffRow("file", text=self.path))
        if self.problem:
            lead += [DiffRow("note", text=part) for part in _wrap(self.problem, room)]
        elif self.change is None:
            lead += map(build_folded_row, self.folded)
        self.lead, self._layout = lead, _EMPTY
        if self.diff is None or self.problem:
            self.height = len(lead) + (0 if self.problem or self.change is None else _estimate_height(self.change))
            return
        self._layout = layout_diff(
            self.diff,
            self.lines,
            Remarks(self.comments, diagnostics, self.folded, self.judged),
            room=room,
            is_split=is_split,
            code_room=code_room,
        )
        self.width = self.measure_lines(range(len(self.lines)))
        self.height = len(lead) + len(self._layout.rows)

    def get_row(self, row: int) -> DiffRow:
        """Return a row from the page's first on; beyond those that are known: an empty one."""
        index = row - len(self.lead)
        if index < 0:
            return self.lead[row]
        if index < len(self._layout.rows):
            return self._layout.rows[index]
        return DiffRow("rest", text="Reading the change…" if index == 0 else "")

    def find_hunk_rows(self, hunk: int) -> tuple[int, int] | None:
        """Return the first row of a hunk and the one after its last; None as long as that is not known."""
        if not 0 <= hunk < len(self._layout.head_rows):
            return None
        return self._layout.head_rows[hunk] + len(self.lead), self._layout.end_rows[hunk] + len(self.lead)

    def find_line(self, numbers: tuple[int, int]) -> int:
        """Return the line of the diff with these numbers in the old and the new file, -1 = none."""
        return next((index for index, line in enumerate(self.lines) if (line.old, line.new) == numbers), -1)

    def find_line_row(self, line: int) -> int:
        """Return the row of a line of the diff."""
        rows = self._layout.rows
        return len(self.lead) + next(index for index, row in enumerate(rows) if line in (row.left, row.right))

    def find_part(self, line: int, part: int) -> tuple[int, int] | None:
        """Return the characters [start, end) of a line that are in its row `part`; None = all of them."""
        spans = self._layout.breaks.get(line)
        if spans is None and part == 0:
            return None
        end = len(self.lines[line].text)
        return spans[part] if spans is not None and part < len(spans) else (end, end)

    def count_parts(self, line: int) -> int:
        """Return the number of rows of a line."""
        return len(self._layout.breaks.get(line, ((0, 0),)))

    def find_part_at(self, line: int, character: int) -> int:
        """Return the row of a line, from 0, in which a character is."""
        starts = [start for start, _ in self._layout.breaks.get(line, ())]
        return max(bisect_right(starts, character) - 1, 0)

    def measure_lines(self, indices: Iterable[int]) -> int:
        """Return the cells of the longest of some lines that are not wrapped."""
        breaks = self._layout.breaks
        return max((self._widths[index] for index in indices if index not in breaks), default=0)

    def find_lines_around(self, hunk: int) -> range:
        """Return the lines of a hunk and the unchanged ones next to it; none of a hunk without lines."""
        own = [index for index, line in enumerate(self.lines) if line.hunk == hunk]
        if hunk < 0 or not own:
            return range(0)
        first, last = own[0], own[-1] + 1
        while first > 0 and self.lines[first - 1].kind == "context":
            first -= 1
        while last < len(self.lines) and self.lines[last].kind == "context":
            last += 1
        return range(first, last)

    def list_targets(self, current: int, visible_rows: range) -> list[tuple[str, ...]]:
        """Return the targets that can be judged while `rows` are visible; `current`: the hunk at the cursor."""
        if self.diff is None or self.problem:
            return []
        inside = range(visible_rows.start - len(self.lead), visible_rows.stop - len(self.lead))
        return find_visible_targets(self.diff, self._layout, current, inside)

    def get_source_line(self, index: int) -> DiffLine:
        """Return the original text of a line of the diff."""
        assert self.diff is not None
        return self.diff.lines[index]

    def find_character(self, index: int, column: int) -> int:
        """Return the column on screen of a character of a line, from 0."""
        raw, clean_text = self.get_source_line(index).text, self.lines[index].text
        return column if raw == clean_text else len(expose_text(raw[:column]))


def _estimate_height(change: Change) -> int:
    line_count = sum(hunk.old_lines + hunk.new_lines for hunk in change.hunks)
    return line_count + len(change.hunks) * (2 * CONTEXT_LINES + 2)


def _wrap(text: str, room: int) -> list[str]:
    lines = [line for line in render_prose(text).split("\n") if line]
    return [line[start:end] for line in lines for start, end in find_line_breaks(line, room or len(line))]


class PageSet:
    """The pages by path."""

    def __init__(self) -> None:
        self._pages: dict[str, DiffPage] = {}

    def __getitem__(self, path: str) -> DiffPage:
        return self._pages[path]

    def clear(self) -> None:
        self._pages = {}

    def arrange(
        self, changes: Sequence[Change], folded_hunks: Mapping[str, Sequence[FoldedHunk]], intents: Mapping[str, str]
    ) -> list[DiffPage]:
        """Return the pages of these changes in their order, and of settled files in `folded_hunks`.

        `intents`: the intent by path, shown above the first of several files with the same.
        """
        pages = []
        for number, change in enumerate(changes, 1):
            page = self._pages.get(change.path) or DiffPage(change.path, change)
            page.set_change(change)
            page.place = f"{number}/{len(changes)}"
            page.intent = intents.get(change.path, "")
            pages.append(page)
        for path in sorted(folded_hunks.keys() - {page.path for page in pages}):
            self._insert_settled(pages, path)
        label = ""
        for page in pages:
            page.folded = folded_hunks.get(page.path, ())
            page.group, label = (page.intent if page.intent != label else ""), page.intent
        self._pages = {page.path: page for page in pages}
        return pages

    def _insert_settled(self, pages: list[DiffPage], path: str) -> None:
        before = list(self._pages)
        settled_page = self._pages.get(path) or DiffPage(path, None)
        settled_page.set_change(None)
        above = before[: before.index(path)] if path in self._pages else [page.path for page in pages]
        position = max((index for index, page in enumerate(pages, 1) if page.path in above), default=0)
        pages.insert(position, settled_page)

    def annotate(
        self,
        comments: Mapping[tuple[str, str], Comment],
        diagnostics: DiagnosticReports,
        sent_verdicts: SentVerdicts,
        judgements: Mapping[str, Mapping[str, Judgement]],
    ) -> tuple[list[DiffPage], bool]:
        """Set comments, diagnostics, sent verdicts and evidence. Return the pages to lay out again, and True if others
        look different."""
        by_path: dict[str, dict[str, str]] = {}
        for (path, hunk), comment in comments.items():
            by_path.setdefault(path, {})[hunk] = comment.text
        stale, is_changed = [], False
        for page in self._pages.values():
            verdicts = dict(sent_verdicts.get_hunks(page.path))
            known = judgements.get(page.path, {})
            is_changed = is_changed or page.sent != verdicts or page.judgements != known
            path_comments, report = by_path.get(page.path, {}), diagnostics.get(page.path)
            before, page.sent, page.judgements = page.judged, verdicts, known
            if (page.comments, page.diagnostics, before) != (path_comments, report, page.judged):
                page.comments, page.diagnostics = path_comments, report
                stale.append(page)
        return stale, is_changed
