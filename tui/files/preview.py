"""A file to look at: line numbers, syntax colours, one marked line; or the reason why nothing can be shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.widgets import Static

from core.protocol.queries import FileAnswer
from tui.keymap import get_bindings, get_keymap, insert_keys
from tui.panes import PaneSource, StatePane
from tui.text import clean, format_path, shorten_lines
from tui.widgets.code_view import CodeView
from tui.widgets.delayed_load import DelayedLoad
from tui.widgets.highlight import HighlightedText
from tui.widgets.text_rows import measure_text

EMPTY: Final = "No file is shown\n\nChoose one in the file tree, or press {review.open} at a hunk of the review."
MAX_LINE_LENGTH: Final = 8_000
CONTEXT_ABOVE: Final = 5


class FileView(CodeView):
    """The text of one file. `marked` is the requested line from 1, 0 = none."""

    DEFAULT_CSS = "FileView { scrollbar-size-horizontal: 0; }"

    BINDINGS = get_bindings("lines")

    def __init__(self) -> None:
        super().__init__()
        self.marked_line = 0
        self._lines: list[str] = []
        self._message = EMPTY
        self._painting: HighlightedText | None = None

    def show_message(self, text: str) -> None:
        self._lines, self._message, self._painting, self.marked_line = [], text, None, 0
        self.virtual_size = Size(0, 0)
        self.redraw()

    def show_text(self, file: FileAnswer, line: int, *, keep: bool = False) -> None:
        """Show a file with `line` marked and in view; `keep`: it is the same file, so the place stays."""
        text = shorten_lines(file.text.replace("\r\n", "\n"), MAX_LINE_LENGTH)
        self._lines = clean(text).split("\n")
        if len(self._lines) > 1 and not self._lines[-1]:
            self._lines.pop()
        self._message = "" if file.text else "The file is empty"
        self.cancel_highlighting()
        self._painting = HighlightedText(self._lines, file.language, file.path)
        self.marked_line = min(line, len(self._lines))
        beyond = self._get_gutter_width() + max(measure_text(each) for each in self._lines) + 1
        self.virtual_size = Size(beyond, len(self._lines)) if file.text else Size(0, 0)
        self.redraw()
        if line > 0:
            top = self.marked_line - 1 - min(CONTEXT_ABOVE, self.size.height // 3)
            self.scroll_to(x=0, y=max(top, 0), animate=False, force=True)
        elif not keep:
            self.scroll_to(0, 0, animate=False, force=True)

    def _get_gutter_width(self) -> int:
        return max(len(str(len(self._lines))), 3) + 3

    def get_line_width(self) -> int:
        return max(self.row_width - self._get_gutter_width(), 1)

    def count_rows(self) -> int:
        return self.size.height if self._message else len(self._lines)

    def get_row_text(self, row: int) -> str:
        return self._lines[row] if row < len(self._lines) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if self._message:
            text = insert_keys(EMPTY, get_keymap(self.app)) if self._message is EMPTY else self._message
            return self.render_message(text, row, width)
        is_marked = row + 1 == self.marked_line
        style = self.resolve_style("on $primary 22%" if is_marked else "")
        parse = self.app.stylesheet.parse_style
        number = f"{row + 1:>{self._get_gutter_width() - 3}}  "
        bar = ("▌" if is_marked else " ", style + parse("$primary"))
        number_style = style + parse("$foreground 65%" if is_marked else "$foreground 38%")
        gutter = self.render_pieces([bar, (number, number_style)])
        code = self.render_code(self._lines[row], style, row=row, spans=self.get_syntax_spans(self._painting, row))
        room = max(width - gutter.cell_length, 0)
        return Strip.join([gutter, self.clip_line(code, style, shift=shift, room=room)])


class FilePreview(StatePane):
    """`load(path)` returns a file's pending text, or its text on disk where `is_gone(path)`."""

    DEFAULT_CSS = """
    FilePreview { width: 1fr; height: 1fr; }
    FilePreview > .preview--title { height: 1; padding: 0 1; background: $surface; }
    """

    hints: Final = (("code.top", "top"), ("code.bottom", "bottom"))

    def __init__(
        self,
        load: Callable[[str], Awaitable[FileAnswer]],
        *,
        is_gone: Callable[[str], bool] = lambda _: False,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._load, self._is_gone = load, is_gone
        self._path, self._line = "", 0
        self._loading = DelayedLoad(
            self,
            "preview.load",
            show_progress=lambda: self._view.show_message("Reading the file…"),
            show_failure=lambda problem: self._view.show_message(f"The file can't be shown\n\n{problem}"),
        )

    def compose(self) -> ComposeResult:
        title = Static(classes="preview--title")
        title.display = False
        yield title
        yield FileView()

    @classmethod
    def from_source(cls, source: PaneSource) -> FilePreview:
        return cls(source.load_file, is_gone=source.is_deleted)

    @property
    def path(self) -> str:
        """The file that is shown or being read, "" = none."""
        return self._path

    @property
    def _view(self) -> FileView:
        return self.query_one(FileView)

    def on_mount(self) -> None:
        if self._path:
            self._start_loading(keep=False)

    def show(self, path: str, line: int = 0) -> None:
        """Show a file with `line` (from 1) marked. The same file again keeps the place."""
        keep = path == self._path and not line
        self._path, self._line = path, line
        if self.is_mounted:
            self._start_loading(keep=keep)

    def focus(self, scroll_visible: bool = True) -> FilePreview:
        self._view.focus(scroll_visible)
        return self

    def _start_loading(self, *, keep: bool) -> None:
        self._loading.start(partial(self._load_file, self._path, self._line, keep=keep))

    async def _load_file(self, path: str, line: int, *, keep: bool) -> None:
        file = await self._load(path)
        self._loading.finish()
        if path != self._path:
            return
        self._show_title(file)
        if file.problem:
            self._view.show_message(f"No preview\n\n{clean(file.problem)}")
        else:
            self._view.show_text(file, line, keep=keep)

    def _show_title(self, file: FileAnswer) -> None:
        title = self.query_one(".preview--title", Static)
        title.display = True
        size = f"  {file.size:,} bytes" if file.size else ""
        gone = "  - deleted, once you accept that" if self._is_gone(self._path) else ""
        parts = [(format_path(self._path), "bold $foreground 85%"), (gone, "$text-error"), (size, "$foreground 45%")]
        title.update(Content.assemble(*parts))
