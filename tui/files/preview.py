"""The preview: a file with its pending changes, for reading, searching and references. It follows changes of the
file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Literal

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from core.protocol.commands import Viewing
from core.protocol.queries import FileAnswer
from tui.files.file_view import FileView, TextPosition
from tui.files.messages import BackRequested, LookupRequested, MentionRequested, RenameRequested
from tui.keymap import get_bindings, get_keymap, insert_keys
from tui.panes import PaneSource, StatePane
from tui.text import fit_line, format_path, render_prose, to_content
from tui.timers import start_timer
from tui.widgets.diagnostics import NO_REPORTS, SEVERITY_SIGNS, DiagnosticReports, format_diagnostic
from tui.widgets.input_line import InputLine, InputPurpose
from tui.workers import start_worker

EMPTY: Final = "No file open\n\nChoose one in the file tree, or press {review.open} on a hunk in the review."

HOVER: Final = ".preview--hover"
HOVER_LINES: Final = 12
PROGRESS_DELAY: Final = 0.5  # seconds
MAX_SELECTED: Final = 20_000  # maximum characters of marked text to send


def format_hover(text: str) -> str:
    """Format hover information in Markdown as a few plain lines."""
    lines = [line for line in text.strip().split("\n") if not line.lstrip().startswith("```") and line.strip() != "---"]
    return "\n".join([*lines[:HOVER_LINES], *(["…"] if len(lines) > HOVER_LINES else [])])


class PreviewInput(InputLine):
    """Asks for words to find, for a line to go to, or for a new name."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {
        "find": InputPurpose("Find in this file. Enter stay, Esc back", "stay"),
        "line": InputPurpose("Line number", "go"),
        "rename": InputPurpose("New name", "rename"),
    }


@dataclass(slots=True)
class DelayedLoad:
    """Loads of one widget; the latest wins. `show_progress` is called when one takes long, `show_failure` on errors."""

    _widget: Widget
    _group: str
    show_progress: Callable[[], None]
    show_failure: Callable[[str], None]
    _timer: Timer | None = None

    def start(self, load: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `load` in place of the current load."""
        if self._timer is None:
            self._timer = start_timer(self._widget, PROGRESS_DELAY, self.show_progress)
        _ = start_worker(self._widget, self._run, load, group=self._group, exclusive=True, exit_on_error=False)

    def cancel(self) -> None:
        self._widget.workers.cancel_group(self._widget, self._group)
        self.finish()

    def finish(self) -> None:
        """Note that the load has finished."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    async def _run(self, load: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await load()
        except Exception as error:  # any error appears in place of the file
            self.finish()
            self.show_failure(render_prose(str(error)))


class FilePreview(StatePane):
    """`load(path)` returns a file's pending text, or its text on disk where `is_gone(path)`."""

    DEFAULT_CSS = """
    FilePreview { width: 1fr; height: 1fr; }
    FilePreview > .preview--title { height: 1; padding: 0 1; background: $surface; }
    FilePreview > .preview--hover { height: auto; max-height: 40%; padding: 0 1; background: $panel; display: none; }
    """

    BINDINGS = get_bindings("preview")
    hints: Final = (
        ("preview.definition", "definition"),
        ("preview.references", "uses"),
        ("preview.find", "find"),
        ("cursor.mark_down", "mark"),
        ("preview.mention", "add to prompt"),
    )

    def __init__(
        self,
        load: Callable[[str], Awaitable[FileAnswer]],
        *,
        is_gone: Callable[[str], bool] = lambda _: False,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._load, self._is_gone = load, is_gone
        self._path = ""
        self._file: FileAnswer | None = None
        self._is_loading = self._is_stale = self._has_hover = False
        self._reports: DiagnosticReports = NO_REPORTS
        self._find_start = (0, 0)
        self._renamed: TextPosition | None = None
        self._loading = DelayedLoad(
            self,
            "preview.load",
            show_progress=self._show_progress,
            show_failure=self._show_failure,
        )

    def compose(self) -> ComposeResult:
        title = Static(classes="preview--title")
        title.display = False
        yield title
        yield FileView()
        yield Static(classes="preview--hover")
        yield PreviewInput()

    @classmethod
    def from_source(cls, source: PaneSource) -> FilePreview:
        return cls(source.load_file, is_gone=source.is_deleted)

    @property
    def path(self) -> str:
        """The displayed or loading file, "" = none."""
        return self._path

    @property
    def line(self) -> int:
        """The line of the cursor, from 1."""
        return self._view.cursor.line + 1

    @property
    def _view(self) -> FileView:
        return self.query_one(FileView)

    def on_mount(self) -> None:
        self._view.show_message(insert_keys(EMPTY, get_keymap(self.app)))

    def focus(self, scroll_visible: bool = True) -> FilePreview:
        """Focus the text at once: the prompt, which a narrow preview covers, must not have it when that is laid out."""
        self.screen.set_focus(self._view, scroll_visible)
        return self

    # Loading

    def show(self, path: str, line: int = 0, column: int = 1, *, end: int = 0) -> None:
        """Show a file with the cursor at a position from 1, and the lines up to `end` marked. The same file without
        a line keeps its position."""
        if path != self._path:
            self._path, self._file = path, None
        self._loading.start(partial(self._load_file, path, (line, column, end)))

    def refresh_paths(self, paths: frozenset[str]) -> None:
        """Reload changed files, on disk or pending; no paths = any file may have changed."""
        if self._path and (not paths or self._path in paths):
            self._is_stale = True
            self._load_again()

    def set_diagnostics(self, reports: DiagnosticReports) -> None:
        """Set the new diagnostics of pending files, by path."""
        self._reports = reports
        self._show_diagnostics()

    def _show_diagnostics(self) -> None:
        report = self._reports.get(self._path)
        self._view.set_diagnostics(report.diagnostics if report is not None else ())
        self.show_hover("")

    def on_show(self) -> None:
        self._load_again()

    def _load_again(self) -> None:
        """Reload a changed file, once it is visible and no load is running."""
        if self._is_stale and self.display and not self._is_loading:
            self._loading.start(partial(self._load_file, self._path, (0, 1, 0)))

    async def _load_file(self, path: str, target: tuple[int, int, int]) -> None:
        self._is_loading, self._is_stale = True, False
        file = await self._load(path)
        self._is_loading = False
        self._loading.finish()
        if path == self._path:
            self._show_file(file)
            if target[0] > 0 and not file.problem:
                self._view.move_cursor_to(*target[:2], end=target[2])
        self._load_again()

    def _show_file(self, file: FileAnswer) -> None:
        before, self._file = self._file, file
        if file.problem:
            self._view.show_message(f"No preview{' any more' if before else ''}\n\n{render_prose(file.problem)}")
        elif before != file:
            self._view.show_text(file, keeps_place=before is not None)
        self._show_diagnostics()
        self._show_title()

    def _show_progress(self) -> None:
        if self._file is None:
            self._view.show_message("Reading the file…")

    def _show_failure(self, problem: str) -> None:
        self._is_loading = False
        self._view.show_message(f"Can't show this file\n\n{problem}")

    @on(FileView.CursorMoved)
    def _on_cursor_moved(self, event: FileView.CursorMoved) -> None:
        event.stop()
        self.show_hover("")
        self._show_title()

    def _show_title(self) -> None:
        file, cursor = self._file, self._view.cursor
        title = self.query_one(".preview--title", Static)
        title.display = file is not None
        if file is None:
            return
        deletion_note = "  - deleted once you accept" if self._is_gone(self._path) else ""
        ends = ", CRLF" if "\r\n" in file.text else ""
        size = f"  {file.size:,} bytes{ends}" if file.size else ""
        match_note = (
            f"  “{fit_line(cursor.pattern, 20)}” {cursor.match_number or '–'}/{len(cursor.matches)}"
            if cursor.pattern
            else ""
        )
        first, last = self._view.marked_lines
        selection_note = f"  lines {first}–{last}" if first else ""
        parts = [
            (format_path(self._path), "bold $foreground 85%"),
            (deletion_note, "$text-error"),
            (match_note, "$text-warning"),
        ]
        title.update(Content.assemble(*parts, (selection_note, "$text-primary"), (size, "$foreground 45%")))

    # References

    @property
    def marked_lines(self) -> tuple[int, int]:
        """The first and the last of the marked lines, from 1; (0, 0) = none are."""
        return self._view.marked_lines

    @property
    def viewing(self) -> Viewing | None:
        """The position in view; None: no readable file."""
        if self._file is None or not self._view.has_text:
            return None
        start, end = self.marked_lines
        selection = "\n".join(self._view.cursor.lines[start - 1 : end]) if start else ""
        return Viewing(
            path=self._path, line=self._view.cursor.line + 1, start=start, end=end, selected=selection[:MAX_SELECTED]
        )

    @property
    def column(self) -> int:
        """The column of the cursor, from 1."""
        return self._view.cursor.column + 1

    def action_move_match(self, step: int) -> None:
        self._view.move_match(step)

    def action_mention(self) -> None:
        if self._file is not None:
            self.post_message(MentionRequested(self._path, *self.marked_lines))

    # Lookups

    def action_look_up(self, kind: Literal["definition", "references", "hover"]) -> None:
        if kind == "hover" and self._has_hover:
            self.show_hover("")
        elif (position := self._find_name()) is not None:
            self.post_message(LookupRequested(kind, self._path, position.line, position.column, position.name))

    def _find_name(self) -> TextPosition | None:
        """Return the name at the cursor; a notice reports if there is none."""
        position = self._view.place if self._file is not None and self._view.has_text else None
        if position is not None and position.name:
            return position
        self.app.notify("No name in this line.", markup=False)
        return None

    def show_hover(self, text: str) -> None:
        """Show hover information below the file until the cursor moves; "" = only the diagnostics of its line."""
        panel, self._has_hover = self.query_one(HOVER, Static), bool(text)
        report = text or "\n".join(
            f"{SEVERITY_SIGNS[diagnostic.severity][0]} {format_diagnostic(diagnostic)}"
            for diagnostic in self._view.list_diagnostics()
        )
        panel.display = bool(report)
        panel.update(to_content(format_hover(report), "$foreground 85%"))

    def action_go_back(self) -> None:
        self.post_message(BackRequested())

    # The line at the foot

    def action_ask(self, purpose: str) -> None:
        if self._view.has_text:
            cursor = self._view.cursor
            self._find_start = (cursor.line, cursor.column)
            self._renamed = self._find_name() if purpose == "rename" else None
            if purpose != "rename" or self._renamed is not None:
                value = self._renamed.name if self._renamed is not None else cursor.pattern if purpose == "find" else ""
                self.query_one(PreviewInput).ask(purpose, value)

    @on(Input.Changed)
    def _on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        preview_input = self.query_one(PreviewInput)
        if preview_input.display and preview_input.purpose == "find":
            self._view.find(event.value, self._find_start)

    @on(Input.Submitted)
    def _on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        purpose, text, position = self._close_input(), event.value.strip(), self._renamed
        if purpose == "line" and text.isdecimal():
            self._view.move_cursor_to(int(text))
        elif purpose == "rename" and position is not None and text not in {"", position.name}:
            self.post_message(RenameRequested(self._path, position.line, position.column, position.name, text))

    @on(PreviewInput.Cancelled)
    def _on_input_cancelled(self) -> None:
        if self._close_input() == "find":
            self._view.find("", self._find_start)

    def _close_input(self) -> str:
        purpose = self.query_one(PreviewInput).close()
        self.focus()
        return purpose
