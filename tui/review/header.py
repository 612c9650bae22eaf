"""The head of the review: the pending files, where the current change came from, its risk and its problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual import events
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from core.protocol.review import Change
from tui.review.descriptions import SIGNS, Part, build_badges, describe_risk
from tui.review.messages import ChangeOpened
from tui.text import format_path, shorten_path, to_content
from tui.widgets.diagnostics import NO_REPORTS, DiagnosticReports
from tui.widgets.text_rows import measure_pieces

MAX_ROWS: Final = 6
LIST_MIN_HEIGHT: Final = 24  # rows of the pane from which several files are listed


class ReviewHeader:
    """The lines above the diff: the files, where the current change came from, and why it can't be accepted.

    `widgets` are yielded by the widget that has the header, and laid out with what it has below.
    """

    def __init__(self) -> None:
        self._files = FileStrip()
        self._lines = {name: Static(classes=f"review--{name}") for name in ("origin", "risk", "conflict")}
        self.widgets: tuple[Widget, ...] = (self._files, *self._lines.values())

    def show_files(
        self, changes: tuple[Change, ...], current: int, sent: frozenset[str], diagnostics: DiagnosticReports
    ) -> None:
        """Show the files around the current one, or nothing without any; `sent`: paths with a verdict under way,
        `diagnostics` of language servers by path."""
        self._files.show(changes, current, sent, diagnostics)

    def show_texts(self, change: Change | None, origin: Sequence[Part], problem: str) -> None:
        """Show the origin and what waits beside it, the risk, and why the change can't be accepted; each if any."""
        texts = {"origin": Content.assemble(*origin), "risk": to_content(describe_risk(change) if change else "")}
        for name, text in (texts | {"conflict": to_content(problem)}).items():
            self._lines[name].display = bool(text)
            self._lines[name].update(text)
        self._lines["risk"].set_class(change is not None and not change.protected, "-label")


class FileStrip(Widget):
    """One row per file around the current one; in a low pane only that one."""

    DEFAULT_CSS = "FileStrip { height: auto; background: $surface; }"

    _changes: tuple[Change, ...] = ()
    _current = 0
    _sent: frozenset[str] = frozenset()
    _diagnostics: DiagnosticReports = NO_REPORTS

    def show(
        self, changes: tuple[Change, ...], current: int, sent: frozenset[str], diagnostics: DiagnosticReports
    ) -> None:
        """Show these changes; `sent`: paths with a verdict under way."""
        self._changes, self._current, self._sent, self._diagnostics = changes, current, sent, diagnostics
        self.display = bool(changes)
        self.refresh(layout=True)

    def _find_visible_range(self) -> range:
        height = self.parent.size.height if isinstance(self.parent, Widget) else 0
        most = MAX_ROWS if height >= LIST_MIN_HEIGHT else 1
        first = max(min(self._current - most // 2, len(self._changes) - most), 0)
        return range(first, min(first + most, len(self._changes)))

    def render(self) -> Content:
        width = self.size.width
        return Content("\n").join(self._render_row(index, width) for index in self._find_visible_range())

    def on_resize(self) -> None:
        self.refresh(layout=True)

    def _render_row(self, index: int, width: int) -> Content:
        change, is_current = self._changes[index], index == self._current
        sign, colour = SIGNS[change.operation]
        place = f"{index + 1}/{len(self._changes)}" if is_current else ""
        most = (max(each.added for each in self._changes), max(each.removed for each in self._changes))
        tail = [
            *build_badges(change, self._diagnostics.get(change.path)),
            (f" {f'+{change.added}' if change.added else '':>{len(str(most[0])) + 1}}", "$text-success"),
            (f" {f'−{change.removed}' if change.removed else '':>{len(str(most[1])) + 1}}", "$text-error"),
            (f" {place:>{2 * len(str(len(self._changes))) + 1}} ", "$foreground 55%"),
        ]
        room = max(width - measure_pieces(tail) - 4, 8)
        path = shorten_path(change.path, room)
        if change.renamed_from and len(path) + len(change.renamed_from) + 3 <= room:
            path = f"{format_path(change.renamed_from)} → {path}"
        style = "bold $foreground" if is_current else "$foreground 65%"
        head = [("▌" if is_current else " ", "$primary"), (f"{sign} ", colour), (path, style)]
        if change.path in self._sent:
            head.append((" …", "$text-warning"))
        gap = max(width - measure_pieces((*head, *tail)), 1)
        return Content.assemble(*(Content.styled(*part) for part in (*head, (" " * gap, ""), *tail)))

    def on_click(self, event: events.Click) -> None:
        window = self._find_visible_range()
        if 0 <= event.y < len(window):
            self.post_message(ChangeOpened(window[event.y]))
