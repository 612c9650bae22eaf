"""Draws the rows of a review: headers of files, heads of hunks with their buttons, and lines with their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from textual.strip import Strip
from textual.style import Style

from core.protocol.language import Diagnostic
from tui.keymap import format_first_key, get_keymap
from tui.review.descriptions import SIGNS as OPERATION_SIGNS
from tui.review.descriptions import build_badges, build_check_badges
from tui.review.diff.layout import LINE_END_MARKS, CleanLine, DiffRow
from tui.review.diff.page import DiffPage
from tui.review.proof_view import describe_judgement
from tui.text import fit_line, format_path, shorten_path
from tui.widgets.code_view import CodeView
from tui.widgets.diagnostics import BACKGROUNDS as DIAGNOSTIC_BACKGROUNDS
from tui.widgets.diagnostics import SEVERITY_SIGNS, UNDERLINE, describe_hunk
from tui.widgets.text_rows import Piece, measure_pieces

TWO_NUMBERS_WIDTH: Final = 72
BACKGROUNDS: Final = {"added": "on $added-line", "removed": "on $removed-line"}
MARKS: Final = {"added": "bold on $added-word", "removed": "bold on $removed-word"}
SIGNS: Final = {"added": ("+", "$text-success bold"), "removed": ("-", "$text-error bold")}
REMARKS: Final = {
    "comment": (("❝", "$text-warning"), "on $warning 10%"),
    **{name: (sign, DIAGNOSTIC_BACKGROUNDS.get(name, "")) for name, sign in SEVERITY_SIGNS.items()},
}
FOLDED_SIGNS: Final = {"accept": ("✓ ", "$text-success"), "reject": ("✕ ", "$text-error")}
NUMBER, NUMBER_CHANGED, FAINT = "$foreground 38%", "$foreground 65%", "$foreground 45%"
CONTINUED: Final = "↳"  # in place of the sign, where a row continues the line of the row above
BAR, DIM_BAR = "$primary", "$foreground 35%"
ACCEPT: Final = ("✓", "accept", "review.accept", "$text-success on $success-muted")
REJECT: Final = ("✕", "reject", "review.reject", "$text-error on $error-muted")
# in conflict, so it can't be accepted
RESOLVE: Final = ("!", "resolve", "review.settle", "$text-warning on $warning-muted")
SENT_LABELS: Final[Mapping[str, str]] = {"accept": "accepting…", "reject": "rejecting…"}


class DiffPainter:
    """Draws for one view. `current` is the hunk with the cursor in the page that is being drawn, `marked` a line of it,
    -1 = none; `is_bright`: the view has the focus."""

    def __init__(self, view: CodeView) -> None:
        self._view = view
        self.current = self.marked = -1
        self.is_split = False
        self.is_bright = True
        self.has_buttons = True
        self.explanation = ""  # why the last key did nothing to the current hunk

    def measure_gutter(self, page: DiffPage) -> int:
        """Return the width of bar, line numbers, sign and space."""
        return 1 + (2 * page.digits + 1 if self._has_two_numbers() else page.digits) + 3

    def _has_two_numbers(self) -> bool:
        return not self.is_split and self._view.size.width >= TWO_NUMBERS_WIDTH

    def get_column_width(self) -> int:
        return (self._view.size.width - 1) // 2 if self.is_split else self._view.row_width

    def draw(self, page: DiffPage, diff_row: DiffRow, row: int, width: int, shift: int) -> Strip:
        """Draw row `row` of the view, which belongs to a page."""
        match diff_row.kind:
            case "line" if self.is_split:
                return self._draw_pair(page, diff_row, row, width, shift)
            case "line":
                return self._draw_side(page, diff_row, 0 if diff_row.right < 0 else 1, row, width, shift)
            case "hunk":
                strip = self._draw_head(page, diff_row.hunk, width)
            case "proof":
                strip = self._draw_proof(page, diff_row.hunk, width)
            case "file":
                strip = self.draw_header(page, width)
            case "group":
                base = self._view.resolve_style("on $background")
                strip = self._view.render_styled([(f" {fit_line(diff_row.text, max(width - 2, 8))}", "bold")], base)
            case "comment" | "diagnostic" | "more":
                strip = self._draw_remark(page, diff_row, width)
            case _:
                strip = self._draw_note(page, diff_row)
        strip = strip.adjust_cell_length(width, self._view.visual_style.rich_style)
        return self._view.mark_as_gutter(strip, row)

    def _draw_note(self, page: DiffPage, diff_row: DiffRow) -> Strip:
        before = " " * max(self.measure_gutter(page) - 3, 0)
        sign: Piece = ({"gap": "⋯ ", "rest": "  "}.get(diff_row.kind, "· "), FAINT)
        if diff_row.kind == "folded":
            sign = FOLDED_SIGNS[diff_row.severity]
        pieces = [self._choose_bar(diff_row.hunk), (before, ""), sign, (diff_row.text, FAINT)]
        return self._view.render_styled(pieces, self._view.resolve_style(""))

    def _draw_remark(self, page: DiffPage, diff_row: DiffRow, width: int) -> Strip:
        """Draw the row of a remark on the lines above it."""
        (sign, style), background = REMARKS[diff_row.severity or "comment"]
        base = self._view.resolve_style(background)
        head = f"{' ' * (self.measure_gutter(page) - 3)}{' ' if diff_row.kind == 'more' else sign} "
        parts = [self._choose_bar(diff_row.hunk), (head, style), (diff_row.text, "")]
        return self._view.render_styled(parts, base).adjust_cell_length(width, base.rich_style)

    def _choose_bar(self, hunk: int) -> Piece:
        if hunk < 0 or hunk != self.current:
            return " ", ""
        return "▌", BAR if self.is_bright else DIM_BAR

    # Lines

    def _draw_pair(self, page: DiffPage, diff_row: DiffRow, row: int, width: int, shift: int) -> Strip:
        half = self.get_column_width()
        divider = self._view.render_pieces([("│", self._view.resolve_style("$foreground 20%"))])
        left_strip = self._draw_side(page, diff_row, 0, row, half, shift)
        return Strip.join([left_strip, divider, self._draw_side(page, diff_row, 1, row, width - half - 1, shift)])

    def _draw_side(self, page: DiffPage, diff_row: DiffRow, side: int, row: int, width: int, shift: int) -> Strip:
        view, index = self._view, (diff_row.left, diff_row.right)[side]
        line = page.lines[index] if index >= 0 else None
        style = view.resolve_style(BACKGROUNDS.get(line.kind, "") if line else "on $foreground 4%")
        if diff_row.hunk >= 0 and page.hunks[diff_row.hunk].id in page.sent:
            style += Style(dim=True)
        bar = (" ", "") if side and self.is_split else self._choose_bar(diff_row.hunk)
        if index == self.marked >= 0 and not diff_row.part:
            bar = ("▶", "$warning")
        edge = view.render_styled([bar], view.resolve_style(""))
        if line is None:
            return edge.adjust_cell_length(width, style.rich_style)
        numbers = self._format_numbers(page, line, side)
        if diff_row.part:
            sign = (CONTINUED if diff_row.part < page.count_parts(index) else " ", numbers[-1][1])
            numbers = [(" " * (measure_pieces(numbers) - 2), ""), sign, (" ", "")]
        gutter = view.mark_as_gutter(Strip.join([edge, view.render_styled(numbers, style)]), row)
        code = self._draw_code(page, diff_row, side, row, style)
        room = max(width - gutter.cell_length, 0)
        return Strip.join([gutter, view.clip_line(code, style, shift=shift, room=room)])

    def _format_numbers(self, page: DiffPage, line: CleanLine, side: int) -> list[Piece]:
        line_numbers = (line.old, line.new) if self._has_two_numbers() else ((line.old, line.new)[side],)
        text = " ".join(f"{number or '':>{page.digits}}" for number in line_numbers)
        sign, sign_style = SIGNS.get(line.kind, (" ", NUMBER))
        diagnostics = _list_diagnostics(page, line, side)
        style = NUMBER_CHANGED if line.kind in SIGNS else NUMBER
        numbers = [(text, style), SEVERITY_SIGNS[diagnostics[0].severity]] if diagnostics else [(f"{text} ", style)]
        return [*numbers, (f"{sign} ", sign_style)]

    def _draw_code(self, page: DiffPage, diff_row: DiffRow, side: int, row: int, style: Style) -> Strip:
        index, part = (diff_row.left, diff_row.right)[side], diff_row.part
        line = page.lines[index]
        spans = self._view.get_syntax_spans(*page.syntax.find_line(side, index))
        mark = MARKS.get(line.kind, "")
        is_whole = len(line.marks) == 1 and line.marks[0] == (0, len(line.text))
        marks = [] if is_whole or not mark else [(start, end, mark) for start, end in line.marks]
        for diagnostic in _list_diagnostics(page, line, side):
            marks.append((*_find_diagnostic(page, index, diagnostic), UNDERLINE))
        span = page.find_part(index, part)
        strip = self._view.render_code(line.text, style, row=row, spans=spans, marks=marks, part=span)
        if line.eol and part == page.count_parts(index) - 1 and (span is None or span[1] == len(line.text)):
            ending = self._view.render_styled([(LINE_END_MARKS[line.eol], "$text-warning 80%")], style)
            strip = Strip.join([strip, ending])
        return strip

    # Heads

    def draw_header(self, page: DiffPage, width: int) -> Strip:
        """Draw the row that names a file: the most urgent thing about it, and its size."""
        change, is_current = page.change, self.current >= 0
        assert change is not None
        base = self._view.resolve_style("on $foreground 10%" if is_current and self.is_bright else "on $foreground 6%")
        sign, colour = OPERATION_SIGNS[change.operation]
        badges = build_badges(change, page.diagnostics)[:1]
        tail: list[Piece] = [
            *badges,
            (f" +{change.added}" if change.added else "", "$text-success"),
            (f" −{change.removed}" if change.removed else "", "$text-error"),
            (f" {page.place} ", "$foreground 55%"),
        ]
        room = max(width - measure_pieces(tail) - 4, 8)
        path = shorten_path(change.path, room)
        if change.renamed_from and len(path) + len(change.renamed_from) + 3 <= room:
            path = f"{format_path(change.renamed_from)} → {path}"
        head = [self._choose_bar(self.current), (f"{sign} ", colour), (path, "bold" if is_current else "")]
        gap = max(width - measure_pieces((*head, *tail)), 1)
        head_strip = self._view.render_styled([*head, (" " * gap, "")], base)
        is_proof = bool(badges) and badges == build_check_badges(change)
        chip = base + Style.from_meta({"proof": change.path}) if is_proof else base
        marks = self._view.render_styled(badges, chip)
        strip = Strip.join([head_strip, marks, self._view.render_styled(tail[len(badges) :], base)])
        return strip.crop(0, width)

    def _draw_head(self, page: DiffPage, index: int, width: int) -> Strip:
        """Draw the row above a hunk: its number, its size and, on the current one, its buttons."""
        hunks, view = page.hunks, self._view
        hunk, is_current = hunks[index], index == self.current
        lit = "on $primary 16%" if self.is_bright else "on $foreground 9%"
        base = view.resolve_style(lit if is_current else "on $foreground 5%")
        words = "bold $foreground" if is_current and self.is_bright else "$foreground 55%"
        parts = [self._choose_bar(index), (f" {hunk.kind} {index + 1}/{len(hunks)} ", words)]
        for sign, name in (("+", "added"), ("−", "removed")):
            if (count := page.counts[name, index]) and page.change is not None and not page.change.binary:
                parts.append((f" {sign}{count}", SIGNS[name][1]))
        if hunk.todo and len({sibling.todo for sibling in hunks}) > 1:
            parts.append((f" {fit_line(hunk.todo, 24)}", "$accent"))
        right = self._draw_buttons(page, index, width < TWO_NUMBERS_WIDTH, base)
        judgement = page.judgements.get(hunk.id)
        if judgement is not None and judgement.is_brief:
            room = width - measure_pieces(parts) - right.cell_length - 3
            parts += [("  ", ""), *describe_judgement(judgement, room)]
        evidence = describe_hunk(page.diagnostics, hunk)
        if measure_pieces([*parts, evidence]) + right.cell_length < width:
            parts.append(evidence)
        left_strip = view.render_styled(parts, base)
        room = max(width - left_strip.cell_length - right.cell_length, 0)
        return Strip.join([left_strip.adjust_cell_length(left_strip.cell_length + room, base.rich_style), right]).crop(
            0, width
        )

    def _draw_proof(self, page: DiffPage, index: int, width: int) -> Strip:
        """Draw the row with what is known of a hunk; of the current one, what rejecting it would do."""
        view, hunk, is_current = self._view, page.hunks[index], index == self.current
        base = view.resolve_style(("on $primary 8%" if self.is_bright else "on $foreground 5%") if is_current else "")
        pieces: list[Piece] = [self._choose_bar(index)]
        if (judgement := page.judgements.get(hunk.id)) is not None:
            pieces += [(" ", ""), *describe_judgement(judgement, width - 3, is_current=is_current)]
        return view.render_styled(pieces, base).adjust_cell_length(width, base.rich_style)

    def _draw_buttons(self, page: DiffPage, index: int, is_narrow: bool, base: Style) -> Strip:
        id_ = page.hunks[index].id
        if id_ in page.sent:
            return self._view.render_styled([(f"{SENT_LABELS[page.sent[id_]]} ", "$text-warning")], base)
        if index != self.current or not self.has_buttons:
            return Strip([])
        if self.explanation:
            return self._view.render_styled([(f"{self.explanation} ", "$text-warning")], base)
        pieces: list[tuple[str, Style]] = []
        is_clash = page.diff is not None and not page.diff.change.is_hunk_clean(id_)
        for sign, word, key_id, style in (RESOLVE if is_clash else ACCEPT, REJECT):
            key = format_first_key(key_id, get_keymap(self._view.app))
            ink = self._view.app.stylesheet.parse_style(f"bold {style}" if self.is_bright else "$foreground 60%")
            button = base + ink + Style.from_meta({"button": word})
            pieces += [(f" {sign} {key} " if is_narrow else f" {sign} {word} {key} ", button), (" ", base)]
        return self._view.render_pieces(pieces)


def _list_diagnostics(page: DiffPage, line: CleanLine, side: int) -> Sequence[Diagnostic]:
    return page.by_line.get(line.new, ()) if side and line.new else ()


def _find_diagnostic(page: DiffPage, index: int, diagnostic: Diagnostic) -> tuple[int, int]:
    """Return the range of characters of a diagnostic, in screen columns."""
    end = diagnostic.end_column if diagnostic.end_line == diagnostic.line else 0
    start, end = max(diagnostic.column - 1, 0), end - 1 if end else len(page.get_source_line(index).text)
    return page.find_character(index, start), page.find_character(index, end)
